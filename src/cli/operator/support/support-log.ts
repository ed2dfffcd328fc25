import { open } from 'node:fs/promises';

/** The end of a log is what helps. */
const maxLogBytes = 2_000_000;

/** Fields whose text Bursar itself chooses. All other texts could contain something of a user. */
const safeTexts = new Set(
  'msg hpc system jobId job state status outcome method route reqId requestId lease part type code syscall'.split(' '),
);
const hidden = '…';

/** Returns the end of a log file, without the texts of users. */
export async function readSafeLog(file: string | undefined): Promise<string> {
  if (file === undefined)
    return 'The log is not in a file of Bursar (log.file). With systemd: journalctl -u bursar --since -1h --output cat\n';
  const lines = (await readEnd(file)).split('\n').filter((line) => line !== '');
  return lines.map((line) => `${toSafeLine(line)}\n`).join('');
}

async function readEnd(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const start = Math.max(0, size - maxLogBytes);
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(size - start), position: start });
    const text = buffer.toString('utf8', 0, bytesRead);
    // The first line is incomplete.
    return start === 0 ? text : text.slice(text.indexOf('\n') + 1);
  } finally {
    await handle.close();
  }
}

/** Numbers and flags stay, and the texts that are safe. A line that is not JSON could contain anything. */
export function toSafeLine(line: string): string {
  try {
    return JSON.stringify(JSON.parse(line), (key: string, value: unknown) => {
      if (typeof value !== 'string') return value;
      if (key === 'stack') return toFrames(value);
      return safeTexts.has(key) ? value.replace(/bursar_[\w-]+|eyJ[\w.-]+/g, '***') : hidden;
    });
  } catch {
    return JSON.stringify({ msg: 'a line that is not JSON was left out', length: line.length });
  }
}

/** The places in the program, without the message above them. */
function toFrames(stack: string): string {
  const lines = stack.split('\n');
  return lines.filter((line) => /^ {4}at /.test(line)).join('\n');
}

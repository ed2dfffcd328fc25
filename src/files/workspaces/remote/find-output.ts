import type { Readable } from 'node:stream';
import { clampTimeMs } from '../workspace-reader.ts';

/** One thing that find has found. */
export interface FindRecord {
  kind: 'file' | 'folder';
  id: string;
  /** How many names it has. */
  names: number;
  size: number;
  modifiedAt: number;
  mode: number;
  path: string;
}

/** `f 1 4711 12 1794712926.1234567890 644 data/in` */
function parseRecord(text: string): FindRecord {
  const [, type, names, id = '', size, seconds, mode = '', path = ''] =
    /^(\S) (\d+) (\d+) (\d+) (-?[\d.]+) (\d+) ([\s\S]*)$/.exec(text) ?? [];
  if (type === undefined) throw new Error(`this is not what find was to print: ${text.slice(0, 100)}`);
  return {
    kind: type === 'd' ? 'folder' : 'file',
    id,
    names: Number(names),
    size: Number(size),
    modifiedAt: clampTimeMs(Number(seconds) * 1000),
    mode: Number.parseInt(mode, 8) & 0o777,
    path,
  };
}

export async function* parseFindOutput(bytes: AsyncIterable<Buffer>): AsyncGenerator<FindRecord> {
  let held = Buffer.alloc(0);
  for await (const chunk of bytes) {
    held = Buffer.concat([held, chunk]);
    for (let end = held.indexOf(0); end !== -1; end = held.indexOf(0)) {
      yield parseRecord(held.toString('utf8', 0, end));
      held = held.subarray(end + 1);
    }
  }
}

/** Takes the first line off a stream; what comes after it stays there. */
export async function readFirstLine(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk: Buffer | null = stream.read();
    if (chunk === null) {
      if (stream.errored) throw stream.errored;
      if (stream.readableEnded || stream.destroyed) return '';
      await somethingNew(stream);
      continue;
    }
    const end = chunk.indexOf('\n');
    chunks.push(end === -1 ? chunk : chunk.subarray(0, end));
    if (end === -1) continue;
    if (end + 1 < chunk.length) stream.unshift(chunk.subarray(end + 1));
    return Buffer.concat(chunks).toString('utf8');
  }
}

async function somethingNew(stream: Readable): Promise<void> {
  const events = ['readable', 'end', 'close'] as const;
  await new Promise<void>((resolve, reject) => {
    const settle = (act: () => void) => {
      for (const event of events) stream.off(event, onNews);
      stream.off('error', onError);
      act();
    };
    const onNews = () => settle(resolve);
    const onError = (error: Error) => settle(() => reject(error));
    for (const event of events) stream.once(event, onNews);
    stream.once('error', onError);
  });
}

import { randomBytes } from 'node:crypto';
import { Transform } from 'node:stream';
import { invalidCommandError } from './process.ts';
import { quoteForShell } from './quote.ts';
import { unavailableError } from './shell.ts';

/** A command line for the login shell of another host, and the marker that it prints around its output. */
export interface RemoteCommand {
  commandLine: string;
  marker: string;
}

/**
 * Prints a marker before and after the command's output, on stderr with the pid and the exit code:
 *
 *     stdout: MARKER⏎ … MARKER        stderr: MARKER pid⏎ … MARKER code⏎
 *
 * ssh alone is ambiguous: its exit code 255 may be its own or the command's, a killed command is a 255 too, and the exit
 * code may arrive although the connection breaks before all output does. Output is complete only between two markers,
 * and the command has ended only if its code is on stderr. Output of the account's start-up files comes before the first
 * marker and is dropped. The pid is that of a session leader (sshd starts one for each command), so that the whole
 * process group can be killed.
 *
 * `exec` runs programs only, never shell built-ins of the same name. The marker is passed as $0, so that no variable is
 * set that the command could see.
 */
const wrapper = [
  'printf "%s\\n" "$0"',
  'printf "%s %s\\n" "$0" "$$" >&2',
  'if command -v "$1" >/dev/null 2>&1; then (exec "$@"); c=$?; else c=missing; fi',
  'printf "%s" "$0"',
  'printf "%s %s\\n" "$0" "$c" >&2',
].join('; ');

/** sshd passes the command line to the login shell as one argument, and Linux accepts no argument of 128 KiB. */
const maxCommandBytes = 120_000;

export function wrapCommand(argv: readonly string[], environment: Record<string, string>): RemoteCommand {
  const [program] = argv;
  const marker = `bursar-${randomBytes(16).toString('hex')}`;
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const commandLine = `exec ${['env', ...variables, '/bin/sh', '-c', wrapper, marker, ...argv].map(quoteForShell).join(' ')}`;
  // To some shells, a program name that begins with a dash is an option of `exec`.
  const isTooLong = Buffer.byteLength(commandLine) > maxCommandBytes;
  if (!program || program.startsWith('-') || commandLine.includes('\0') || isTooLong) {
    throw invalidCommandError();
  }
  return { commandLine, marker };
}

export interface RemoteStatus {
  pid: number | undefined;
  /** The exit code, or `missing` if there is no such program. Undefined while the command runs or if the connection was lost. */
  exit: 'missing' | number | undefined;
  /** The command's stderr. If the command did not start, all output of ssh, including its own errors. */
  stderr: string;
}

/** Parses the stderr of a wrapped command. */
export function parseStatus(marker: string, bytes: Buffer): RemoteStatus {
  const text = bytes.toString('utf8');
  const begin = new RegExp(`${marker} (\\d+)\\n`).exec(text);
  if (begin === null) return { pid: undefined, exit: undefined, stderr: text };
  const stderr = text.slice(begin.index + begin[0].length);
  const pid = Number(begin[1]);
  const end = new RegExp(`${marker} (missing|\\d+)\\n`).exec(stderr);
  if (end === null) return { pid, exit: undefined, stderr };
  return { pid, exit: end[1] === 'missing' ? 'missing' : Number(end[1]), stderr: stderr.slice(0, end.index) };
}

/** Returns the output between the markers; undefined unless both are there. */
export function extractOutput(marker: string, stdout: Buffer): Buffer | undefined {
  const begin = stdout.indexOf(`${marker}\n`);
  const end = stdout.lastIndexOf(marker);
  return begin === -1 || end <= begin ? undefined : stdout.subarray(begin + marker.length + 1, end);
}

/** Extracts the output between the markers from a stream, which fails at its end if a marker is missing. */
export function createOutputExtractor(marker: string, label: string): Transform {
  const beginMarker = Buffer.from(`${marker}\n`);
  const endMarker = Buffer.from(marker);
  let buffered: Buffer = Buffer.alloc(0);
  let hasBegun = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      buffered = Buffer.concat([buffered, chunk]);
      if (!hasBegun) {
        const start = buffered.indexOf(beginMarker);
        hasBegun = start !== -1;
        buffered = hasBegun ? buffered.subarray(start + beginMarker.length) : buffered.subarray(-beginMarker.length);
      }
      // Pass on everything that cannot be part of the end marker, at once: readers follow live logs.
      const outputBytes = buffered.length - overlapBytes(buffered, endMarker);
      if (hasBegun && outputBytes > 0) {
        this.push(buffered.subarray(0, outputBytes));
        buffered = buffered.subarray(outputBytes);
      }
      done();
    },
    flush(done) {
      done(hasBegun && buffered.equals(endMarker) ? null : incompleteOutputError(label));
    },
  });
}

export const incompleteOutputError = (label: string) => unavailableError(`The output of ${label} is incomplete.`);

/** The length of the longest suffix of `bytes` that is a prefix of `marker`. */
function overlapBytes(bytes: Buffer, marker: Buffer): number {
  for (let length = Math.min(bytes.length, marker.length); length > 0; length -= 1) {
    if (bytes.subarray(-length).equals(marker.subarray(0, length))) return length;
  }
  return 0;
}

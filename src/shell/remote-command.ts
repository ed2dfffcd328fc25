import { randomBytes } from 'node:crypto';
import { Transform } from 'node:stream';
import { BursarError } from '../domain/errors.ts';
import { unavailable } from './shell-errors.ts';

/** A command as the login shell of another host reads it, and the mark that it sets around its output. */
export interface RemoteCommand {
  text: string;
  mark: string;
}

/**
 * Says on both outputs where the command's own begins and ends, and on stderr also who runs it and how it ended:
 *
 *     stdout: MARK⏎ … MARK        stderr: MARK pid⏎ … MARK code⏎
 *
 * ssh alone cannot tell: its 255 may be its own or the command's, a killed command is a 255 as well, and a code may
 * arrive before a connection breaks that still had output to carry. Only what has both marks is whole, and only
 * with its code on stderr has it ended. What start-up files of the account print comes before the mark, and is
 * dropped. The pid is that of a session leader (sshd makes one for every command): by it the whole group can be killed.
 *
 * `exec` runs programs only, never the shell's own commands of the same name. The mark is $0, so that no variable
 * is set that the command could see.
 */
const wrapper = [
  'printf "%s\\n" "$0"',
  'printf "%s %s\\n" "$0" "$$" >&2',
  'if command -v "$1" >/dev/null 2>&1; then (exec "$@"); c=$?; else c=missing; fi',
  'printf "%s" "$0"',
  'printf "%s %s\\n" "$0" "$c" >&2',
].join('; ');

/** sshd gives the login shell all of it as one argument, and Linux takes no argument of 128 KiB. */
const maxCommandBytes = 120_000;

export function wrapCommand(argv: readonly string[], environment: Record<string, string>): RemoteCommand {
  const [program] = argv;
  const mark = `bursar-${randomBytes(16).toString('hex')}`;
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  const text = `exec ${['env', ...variables, '/bin/sh', '-c', wrapper, mark, ...argv].map(quote).join(' ')}`;
  // Some shells would take a program that begins with a dash for an option of `exec`.
  if (!program || program.startsWith('-') || text.includes('\0') || Buffer.byteLength(text) > maxCommandBytes) {
    throw new BursarError('internal', 'Bursar made a command that no system can run. Please report this.');
  }
  return { text, mark };
}

/** One word for any POSIX shell, whatever is in it: the only place in the house where anything is quoted. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

export interface RemoteReport {
  pid: number | undefined;
  /** Undefined while it runs, and for ever once the connection is lost. */
  outcome: 'missing' | number | undefined;
  /** What the command wrote; all there is, ssh's own complaints included, when it did not end. */
  stderr: string;
}

export function readReport(mark: string, bytes: Buffer): RemoteReport {
  const text = bytes.toString('utf8');
  const begin = new RegExp(`${mark} (\\d+)\\n`).exec(text);
  if (begin === null) return { pid: undefined, outcome: undefined, stderr: text };
  const own = text.slice(begin.index + begin[0].length);
  const pid = Number(begin[1]);
  const end = new RegExp(`${mark} (missing|\\d+)\\n`).exec(own);
  if (end === null) return { pid, outcome: undefined, stderr: own };
  return { pid, outcome: end[1] === 'missing' ? 'missing' : Number(end[1]), stderr: own.slice(0, end.index) };
}

/** What stands between the marks on stdout; undefined unless both are there. */
export function readMarked(mark: string, stdout: Buffer): Buffer | undefined {
  const begin = stdout.indexOf(`${mark}\n`);
  const end = stdout.lastIndexOf(mark);
  return begin === -1 || end <= begin ? undefined : stdout.subarray(begin + mark.length + 1, end);
}

/** The same for a stream. Fails at the end when a mark is missing. */
export function createUnmarking(mark: string, what: string): Transform {
  const begin = Buffer.from(`${mark}\n`);
  const end = Buffer.from(mark);
  let held: Buffer = Buffer.alloc(0);
  let hasBegun = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      held = Buffer.concat([held, chunk]);
      if (!hasBegun) {
        const start = held.indexOf(begin);
        hasBegun = start !== -1;
        held = hasBegun ? held.subarray(start + begin.length) : held.subarray(-begin.length);
      }
      // All but what may turn out to be the mark: a reader who follows a log must not wait for more of it.
      const sureBytes = held.length - overlap(held, end);
      if (hasBegun && sureBytes > 0) {
        this.push(held.subarray(0, sureBytes));
        held = held.subarray(sureBytes);
      }
      done();
    },
    flush(done) {
      done(hasBegun && held.equals(end) ? null : unavailable(`The output of ${what} broke off.`));
    },
  });
}

/** How many of the last bytes are the first ones of a mark. */
function overlap(bytes: Buffer, mark: Buffer): number {
  for (let length = Math.min(bytes.length, mark.length); length > 0; length -= 1) {
    if (bytes.subarray(-length).equals(mark.subarray(0, length))) return length;
  }
  return 0;
}

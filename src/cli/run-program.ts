import { Command, CommanderError } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };
import type { Host } from './host.ts';

export const { version } = packageJson;

/** Wrong usage has the same exit code in the users' and in the operators' commands. */
const usageExitCode = 2;

/** A program without commands. Errors are thrown, so that `runProgram` decides about the exit code. */
export function createProgram(description: string, { stdout, stderr }: Host): Command {
  return new Command('bursar')
    .description(description)
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut: (text) => void stdout.write(text), writeErr: (text) => void stderr.write(text) })
    .showHelpAfterError('(run with --help for usage)');
}

/** Runs one command. Results go to standard output, everything else to standard error. */
export async function runProgram(
  program: Command,
  host: Host,
  describeError: (error: unknown) => { message: string; exitCode: number },
): Promise<void> {
  host.stdout.on('error', (error) => onOutputError(host, error));
  // Nobody could read a message about it.
  host.stderr.on('error', () => undefined);
  try {
    await program.parseAsync(host.argv);
  } catch (error) {
    if (error instanceof CommanderError) {
      host.exitCode = error.exitCode === 0 ? 0 : usageExitCode;
      return;
    }
    const { message, exitCode } = describeError(error);
    host.stderr.write(`${message}\n`);
    host.exitCode = exitCode;
  }
}

/** If the reader of the output, such as `head`, or the terminal has gone, the command is completed. A full disk ends it. */
function onOutputError(host: Host, { code, message }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE' || code === 'EIO') return;
  host.stderr.write(`error: The output cannot be written: ${message}\n`);
  host.exit(1);
}

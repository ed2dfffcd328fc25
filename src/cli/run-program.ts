import { Command, CommanderError } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };

export const { version } = packageJson;

/** Wrong usage has the same exit code in the users' and in the operators' commands. */
const usageExitCode = 2;

/** A program without commands. Errors are thrown, so that `runProgram` decides about the exit code. */
export function createProgram(description: string): Command {
  return new Command('bursar')
    .description(description)
    .version(version)
    .exitOverride()
    .configureOutput({ writeErr: writeError })
    .showHelpAfterError('(run with --help for usage)');
}

/** Runs one command. Results go to standard output, everything else to standard error. */
export async function runProgram(
  program: Command,
  argv: string[],
  describeError: (error: unknown) => { message: string; exitCode: number },
): Promise<void> {
  process.stdout.on('error', onOutputError);
  // Nobody could read a message about it.
  process.stderr.on('error', () => undefined);
  try {
    await program.parseAsync(argv);
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : usageExitCode;
      return;
    }
    const { message, exitCode } = describeError(error);
    writeError(`${message}\n`);
    process.exitCode = exitCode;
  }
}

function writeError(text: string): void {
  process.stderr.write(text);
}

/** If the reader of the output, such as `head`, or the terminal has gone, the command is completed. A full disk ends it. */
function onOutputError({ code, message }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE' || code === 'EIO') return;
  writeError(`error: The output cannot be written: ${message}\n`);
  process.exit(1);
}

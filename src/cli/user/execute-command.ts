import type { CommandEnvironment, CommonOptions } from './command-environment.ts';
import { type Context, createContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { reportError } from './report-error.ts';

/** A command. `Options` are its options and its arguments, by their names. */
export type Run<Options> = (context: Context, options: Options) => Promise<void>;

/** Runs a command in the given environment. Returns its exit code. */
export async function runCommand<Options extends CommonOptions>(
  load: () => Promise<Run<Options>>,
  environment: CommandEnvironment,
  options: Options,
): Promise<number> {
  const context = createContext(environment, options);
  try {
    const run = await load();
    await run(context, options);
    return environment.signal.aborted ? reportInterrupt(context) : context.exitCode;
  } catch (error) {
    if (environment.signal.aborted) return reportInterrupt(context);
    if (isClosedOutput(error)) return context.exitCode;
    const exitCode = reportError(context, error);
    if (context.detachMessage !== undefined) context.note(context.detachMessage);
    return exitCode;
  }
}

/** Ctrl-C while a job is watched leaves the job alone. */
function reportInterrupt({ detachMessage, note, stderr }: Context): number {
  if (detachMessage === undefined) return exitCodes.interrupted.code;
  // The terminal has shown "^C" on this line.
  note(stderr.isTTY ? `\n${detachMessage}` : detachMessage);
  return exitCodes.jobUnfinished.code;
}

/** The reader of the output, such as `head`, has enough. */
function isClosedOutput(error: unknown): boolean {
  return ['EPIPE', 'ERR_STREAM_DESTROYED'].includes((error as NodeJS.ErrnoException).code ?? '');
}

import type { Command } from 'commander';
import { type Context, createContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { reportError } from './report-error.ts';
import type { CommonOptions, Surroundings } from './surroundings.ts';

/** A command. `Options` are its options and its arguments, by their names. */
type Run<Options> = (context: Context, options: Options) => Promise<void>;

// biome-ignore lint/suspicious/noExplicitAny: commander does not know the types of options
type AnyRun = Run<any>;

/** Makes the action of a command. Its module is imported when the command runs: `runs(() => import('./job/show.ts'))`. */
export function runs<Name extends string = 'run'>(
  load: () => Promise<Record<NoInfer<Name>, AnyRun>>,
  name = 'run' as Name,
) {
  return async function action(this: Command): Promise<void> {
    const options = { ...this.optsWithGlobals(), ...namedArguments(this) } as CommonOptions;
    const interruption = new AbortController();
    const onInterrupt = () => {
      // A second Ctrl-C ends a command that does not react to the first one.
      if (interruption.signal.aborted) process.exit(exitCodes.interrupted.code);
      interruption.abort();
    };
    process.on('SIGINT', onInterrupt);
    const { env, stdin, stdout, stderr } = process;
    const surroundings = { env, stdin, stdout, stderr, now: Date.now, signal: interruption.signal };
    try {
      process.exitCode = await runCommand(async () => (await load())[name], surroundings, options);
    } finally {
      process.off('SIGINT', onInterrupt);
    }
  };
}

/** Runs a command in the given surroundings. Returns its exit code. */
export async function runCommand<Options extends CommonOptions>(
  load: () => Promise<Run<Options>>,
  surroundings: Surroundings,
  options: Options,
): Promise<number> {
  const context = createContext(surroundings, options);
  try {
    const run = await load();
    await run(context, options);
    return surroundings.signal.aborted ? reportInterrupt(context) : context.exitCode;
  } catch (error) {
    if (surroundings.signal.aborted) return reportInterrupt(context);
    if (isClosedOutput(error)) return context.exitCode;
    return reportError(context, error);
  }
}

/** Ctrl-C while a job is watched leaves the job alone. */
function reportInterrupt({ detachMessage, note }: Context): number {
  if (detachMessage === undefined) return exitCodes.interrupted.code;
  note(detachMessage);
  return exitCodes.jobUnfinished.code;
}

/** The reader of the output, such as `head`, has enough. */
function isClosedOutput(error: unknown): boolean {
  return ['EPIPE', 'ERR_STREAM_DESTROYED'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function namedArguments(command: Command): Record<string, unknown> {
  return Object.fromEntries(
    command.registeredArguments.map((argument, index) => [camelCase(argument.name()), command.processedArgs[index]]),
  );
}

const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

import type { Command } from 'commander';
import { type Context, createContext } from './context.ts';
import { exitCodes } from './exit-codes.ts';
import { reportError } from './report-error.ts';
import type { CommonOptions, Surroundings } from './surroundings.ts';

interface CommandModule<Options> {
  run(context: Context, options: Options): Promise<void>;
}

/**
 * Makes the action of a command: its module is imported when the command runs. `run` gets the options and the arguments, by
 * their names, in one object.
 */
export function runs<Options>(load: () => Promise<CommandModule<Options>>) {
  return async function action(this: Command): Promise<void> {
    const options = { ...this.optsWithGlobals(), ...namedArguments(this) } as CommonOptions & Options;
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
      process.exitCode = await runCommand(load, surroundings, options);
    } finally {
      process.off('SIGINT', onInterrupt);
    }
  };
}

/** Runs a command in the given surroundings. Returns its exit code. */
export async function runCommand<Options>(
  load: () => Promise<CommandModule<Options>>,
  surroundings: Surroundings,
  options: CommonOptions & Options,
): Promise<number> {
  const context = createContext(surroundings, options);
  try {
    await (await load()).run(context, options);
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

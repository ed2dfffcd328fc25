import type { Command } from 'commander';
import type { Run } from './execute-command.ts';
import { exitCodes } from './exit-codes.ts';
import type { CommonOptions } from './surroundings.ts';

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
      // Help needs neither the client nor the context.
      const { runCommand } = await import('./execute-command.ts');
      process.exitCode = await runCommand(async () => (await load())[name], surroundings, options);
    } finally {
      process.off('SIGINT', onInterrupt);
    }
  };
}

function namedArguments(command: Command): Record<string, unknown> {
  return Object.fromEntries(
    command.registeredArguments.map((argument, index) => [camelCase(argument.name()), command.processedArgs[index]]),
  );
}

const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

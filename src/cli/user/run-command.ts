import type { Command } from 'commander';
import type { CommandEnvironment, CommonOptions } from './command-environment.ts';
import type { Run } from './execute-command.ts';
import { exitCodes } from './exit-codes.ts';

// biome-ignore lint/suspicious/noExplicitAny: commander does not know the types of options
type AnyRun = Run<any>;

/** Runs a command with the streams of a process, or with others, and takes its exit code. */
export type Host = (run: (environment: CommandEnvironment) => Promise<number>) => Promise<void>;

const hosts = new WeakMap<Command, Host>();

/** Makes the commands of a program run in other environment than those of the process. Tests use it. */
export function setHost(program: Command, host: Host): void {
  hosts.set(program, host);
}

/** Makes the action of a command. Its module is imported when the command runs: `runs(() => import('./job/show.ts'))`. */
export function runs<Name extends string = 'run'>(
  load: () => Promise<Record<NoInfer<Name>, AnyRun>>,
  name = 'run' as Name,
) {
  return async function action(this: Command): Promise<void> {
    const options = { ...this.optsWithGlobals(), ...namedArguments(this) } as CommonOptions;
    const host = hosts.get(rootOf(this)) ?? runInProcess;
    await host(async (environment) => {
      // Help needs neither the client nor the context.
      const { runCommand } = await import('./execute-command.ts');
      return await runCommand(async () => (await load())[name], environment, options);
    });
  };
}

async function runInProcess(run: (environment: CommandEnvironment) => Promise<number>): Promise<void> {
  const interruption = new AbortController();
  const onInterrupt = () => {
    // A second Ctrl-C ends a command that does not react to the first one.
    if (interruption.signal.aborted) process.exit(exitCodes.interrupted.code);
    interruption.abort();
  };
  process.on('SIGINT', onInterrupt);
  const { env, stdin, stdout, stderr } = process;
  try {
    process.exitCode = await run({ env, stdin, stdout, stderr, now: Date.now, signal: interruption.signal });
  } finally {
    process.off('SIGINT', onInterrupt);
  }
}

const rootOf = (command: Command): Command => (command.parent === null ? command : rootOf(command.parent));

function namedArguments(command: Command): Record<string, unknown> {
  return Object.fromEntries(
    command.registeredArguments.map((argument, index) => [camelCase(argument.name()), command.processedArgs[index]]),
  );
}

const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

import type { Command } from 'commander';
import type { Host } from '../host.ts';
import type { CommandEnvironment, CommonOptions } from './command-environment.ts';
import type { Run } from './execute-command.ts';
import { exitCodes } from './exit-codes.ts';

// biome-ignore lint/suspicious/noExplicitAny: commander does not know the types of options
type AnyRun = Run<any>;

const hosts = new WeakMap<Command, Host>();

/** Commands are defined in many places, so that each finds the host by its program. */
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
    await runInHost(hosts.get(rootOf(this)) ?? process, async (environment) => {
      // Help needs neither the client nor the context.
      const { runCommand } = await import('./execute-command.ts');
      return await runCommand(async () => (await load())[name], environment, options);
    });
  };
}

async function runInHost(host: Host, run: (environment: CommandEnvironment) => Promise<number>): Promise<void> {
  const interruption = new AbortController();
  const onInterrupt = () => {
    // A second Ctrl-C ends a command that does not react to the first one.
    if (interruption.signal.aborted) host.exit(exitCodes.interrupted.code);
    interruption.abort();
  };
  host.on('SIGINT', onInterrupt);
  const { env, stdin, stdout, stderr } = host;
  try {
    host.exitCode = await run({ env, stdin, stdout, stderr, now: Date.now, signal: interruption.signal });
  } finally {
    host.off('SIGINT', onInterrupt);
  }
}

const rootOf = (command: Command): Command => (command.parent === null ? command : rootOf(command.parent));

function namedArguments(command: Command): Record<string, unknown> {
  return Object.fromEntries(
    command.registeredArguments.map((argument, index) => [camelCase(argument.name()), command.processedArgs[index]]),
  );
}

const camelCase = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

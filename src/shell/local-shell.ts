import { basename } from 'node:path';
import { baseEnvironment } from './base-environment.ts';
import type { StartProcess } from './process.ts';
import { runProcess, streamProcess } from './run-process.ts';
import { type Shell, unavailableError } from './shell.ts';

export interface LocalShellOptions {
  /** Added to the base environment of every command. */
  environment: Record<string, string>;
  /** Starts the commands of `run`. Default: this process does. */
  startProcess?: StartProcess | undefined;
}

/** Runs programs on this host, in `/`, as Bursar's own user. Killing a command kills its whole process group. */
export function createLocalShell({ environment, startProcess }: LocalShellOptions): Shell {
  const hostLabel = 'this host';
  const commandEnvironment = { ...baseEnvironment(), ...environment };
  const processOptions = (argv: readonly string[]) => ({
    environment: commandEnvironment,
    label: `${basename(argv[0] ?? '')} on ${hostLabel}`,
  });

  return {
    hostLabel,
    isLocal: true,
    // bash runs the file that BASH_ENV names.
    environment: 'BASH_ENV' in environment ? null : commandEnvironment,

    async run(argv, options) {
      const { code, stdout, stderr } = await runProcess(argv, {
        ...processOptions(argv),
        ...options,
        startProcess,
      });
      return { code, stdout: stdout.toString('utf8'), stderr: stderr.toString('utf8') };
    },

    async stream(argv, { signal }) {
      const options = processOptions(argv);
      return await streamProcess(argv, {
        ...options,
        signal,
        exitError: (code, stderr) =>
          code === 0
            ? null
            : unavailableError(`${options.label} failed (${code ?? 'killed'}).`, new Error(stderr.toString())),
      });
    },

    close: async () => undefined,
  };
}

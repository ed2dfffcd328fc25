import { basename } from 'node:path';
import { baseEnvironment } from './base-environment.ts';
import { runProcess } from './run-process.ts';
import type { Shell } from './shell.ts';
import { unavailable } from './shell-errors.ts';
import { streamProcess } from './stream-process.ts';

export interface LocalShellOptions {
  /** Added to the little that every command gets, such as SLURM_CONF. */
  environment: Record<string, string>;
}

/** Runs programs on this host, in `/`, as Bursar's own user. A command that is ended takes its process group with it. */
export function createLocalShell({ environment }: LocalShellOptions): Shell {
  const place = 'this host';
  const settingOf = (argv: readonly string[]) => ({
    environment: { ...baseEnvironment(), ...environment },
    what: `${basename(argv[0] ?? '')} on ${place}`,
  });

  return {
    place,

    async run(argv, options) {
      const { code, stdout, stderr } = await runProcess(argv, { ...options, ...settingOf(argv) });
      return { code, stdout: stdout.toString('utf8'), stderr: stderr.toString('utf8') };
    },

    async stream(argv, { signal }) {
      const setting = settingOf(argv);
      return await streamProcess(argv, {
        ...setting,
        signal,
        judge: (code, stderr) =>
          code === 0
            ? null
            : unavailable(`${setting.what} failed (${code ?? 'killed'}).`, new Error(stderr.toString())),
      });
    },

    close: async () => undefined,
  };
}

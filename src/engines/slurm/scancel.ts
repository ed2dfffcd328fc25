import type { SlurmCommand } from './commands.ts';

/** Cancels every job of this name, in any state. The name must not be empty: scancel would then cancel all jobs. */
export function scancelByName(name: string): SlurmCommand {
  return { argv: ['scancel', '--me', `--name=${name}`] };
}

export function scancelById(refs: readonly string[]): SlurmCommand {
  return { argv: ['scancel', '--me', ...refs] };
}

import type { RunResult } from '../../shell/shell.ts';
import { type SlurmCommand, unavailable } from './commands.ts';

/** Ends every job of this name, whatever state it is in. An empty name would end every job there is. */
export function scancelByName(name: string): SlurmCommand {
  return { argv: ['scancel', '--me', `--name=${name}`] };
}

export function scancelById(refs: readonly string[]): SlurmCommand {
  return { argv: ['scancel', '--me', ...refs] };
}

/** A job that is over, or that nobody knows, needs no cancelling. */
export function checkScancel(result: RunResult): void {
  if (result.code === 0) return;
  const lines = result.stderr.trim().split('\n');
  if (result.code === null || !lines.every((line) => isOver.test(line))) throw unavailable('scancel', result);
}

const isOver = /already complet|already finished|invalid job id/i;

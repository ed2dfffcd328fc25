import type { RunResult } from '../../shell/shell.ts';
import type { EngineHealth } from '../engine.ts';
import { lastWords, type SlurmCommand, unavailable } from './commands.ts';

/** Lets held jobs start. Those that cannot be released do not keep the others from it. */
export function releaseCommand(refs: readonly string[]): SlurmCommand {
  return { argv: ['scontrol', 'release', refs.join(',')] };
}

/** A job that is over needs no release. */
export function checkRelease(result: RunResult): void {
  if (result.code === 0) return;
  const lines = result.stderr.trim().split('\n');
  if (result.code === null || !lines.every((line) => isOver.test(line))) throw unavailable('scontrol', result);
}

const isOver = /already complet|already finished|invalid job id/i;

export function pingCommand(): SlurmCommand {
  return { argv: ['scontrol', 'ping'] };
}

/** `Slurmctld(primary) at head1 is UP`, a line for each controller. One that is up is enough. */
export function parsePing(result: RunResult): EngineHealth {
  const controllers = [...result.stdout.matchAll(/^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)/gm)];
  const up = controllers.find(([, , , state]) => state === 'UP');
  if (up !== undefined) return { ok: true, detail: `slurmctld on ${up[2]} (${up[1]}) is up` };
  const hosts = controllers.map(([, , host]) => host).join(', ');
  return { ok: false, detail: hosts === '' ? lastWords(result) : `slurmctld on ${hosts} is down` };
}

export function showConfigCommand(): SlurmCommand {
  return { argv: ['scontrol', 'show', 'config'] };
}

/** What the controller says of its memory: the id that it gives next, and how long it keeps what is over. */
export function parseMemory(output: string): { nextId: number; keepsMs: number } {
  const figure = (name: string) => Number(new RegExp(`^${name}\\s*= (\\d+)`, 'm').exec(output)?.[1] ?? Number.NaN);
  const seconds = figure('MinJobAge');
  // 0 is for ever. Where it does not say, nothing follows from either.
  return { nextId: figure('NEXT_JOB_ID'), keepsMs: seconds === 0 ? Number.POSITIVE_INFINITY : seconds * 1000 };
}

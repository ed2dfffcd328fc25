import type { RunResult } from '../../shell/shell.ts';
import { lastErrorLine } from '../batch/run-command.ts';
import type { EngineHealth } from '../engine.ts';

/** Parses one line for each controller, such as `Slurmctld(primary) at head1 is UP`. One controller that is up is enough. */
export function parsePing(result: RunResult): EngineHealth {
  const controllers = [...result.stdout.matchAll(/^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)/gm)];
  const up = controllers.find(([, , , state]) => state === 'UP');
  if (up !== undefined) return { ok: true, detail: `slurmctld on ${up[2]} (${up[1]}) is up` };
  const hosts = controllers.map(([, , host]) => host).join(', ');
  return { ok: false, detail: hosts === '' ? lastErrorLine(result) : `slurmctld on ${hosts} is down` };
}

/**
 * Parses the next job id that the controller will assign, and how long squeue lists finished jobs (MinJobAge; 0 means
 * for ever). A value that is absent becomes NaN, for which every comparison is false.
 */
export function parseControllerConfig(output: string): { nextJobId: number; minJobAgeMs: number } {
  const readNumber = (name: string) => Number(new RegExp(`^${name}\\s*= (\\d+)`, 'm').exec(output)?.[1] ?? Number.NaN);
  const minJobAgeSeconds = readNumber('MinJobAge');
  const minJobAgeMs = minJobAgeSeconds === 0 ? Number.POSITIVE_INFINITY : minJobAgeSeconds * 1000;
  return { nextJobId: readNumber('NEXT_JOB_ID'), minJobAgeMs };
}

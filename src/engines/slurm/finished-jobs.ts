import type { Observation } from '../../domain/jobs/transition.ts';
import { isJobName, outputOf, type RunCommand } from './commands.ts';
import { observationOf } from './observation.ts';
import { type Accounting, parseSacct, sacctCommand } from './sacct.ts';

export interface FinishedJobs {
  /**
   * The ends of jobs that are not in the queue any more, as far as accounting tells them; at most one command, however
   * many jobs. A job that is not told of yet is asked for again after 2, 4, 8… 60 s, a known one never. Never throws.
   */
  look(missing: ReadonlyMap<string, string>, signal: AbortSignal): Promise<Observation[]>;
}

const longestPauseMs = 60_000;
/** Those beyond it have their turn at the next look. */
const mostAtOnce = 500;

export function createFinishedJobs(source: Accounting, run: RunCommand, now: () => number): FinishedJobs {
  const known = new Map<string, Observation>();
  const asked = new Map<string, { pauseMs: number; nextAt: number }>();

  async function ask(missing: ReadonlyMap<string, string>, refs: string[], signal: AbortSignal): Promise<void> {
    if (source === 'none' || refs.length === 0) return;
    for (const ref of refs) {
      const pauseMs = Math.min((asked.get(ref)?.pauseMs ?? 1000) * 2, longestPauseMs);
      asked.set(ref, { pauseMs, nextAt: now() + pauseMs });
    }
    const jobs = parseSacct(outputOf('sacct', await run(sacctCommand(refs, source), signal)));
    for (const job of jobs) {
      // The id alone is not enough: a controller that crashed may have given it to another job.
      if (!isJobName(job.name) || missing.get(job.name) !== job.ref) continue;
      const seen = observationOf(job, now());
      if (seen?.kind === 'finished') known.set(job.ref, seen);
    }
  }

  return {
    async look(missing, signal) {
      const refs = new Set(missing.values());
      for (const ref of known.keys()) if (!refs.has(ref)) known.delete(ref);
      for (const ref of asked.keys()) if (!refs.has(ref)) asked.delete(ref);
      const due = [...refs].filter((ref) => !known.has(ref) && now() >= (asked.get(ref)?.nextAt ?? 0));
      // Without an answer nothing is known: the job is asked for again later.
      await ask(missing, due.slice(0, mostAtOnce), signal).catch(() => undefined);
      return [...known.values()];
    },
  };
}

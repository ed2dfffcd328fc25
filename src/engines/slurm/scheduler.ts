import { chunks } from '../../domain/chunks.ts';
import type { RunResult } from '../../shell/shell.ts';
import { type CommandVariables, type RunCommand, requireOutput, unavailableError } from '../batch/run-command.ts';
import type { BatchScheduler, UnlistedJob } from '../batch/scheduler.ts';
import { toObservation } from './observation.ts';
import { type Accounting, parseSacct, sacctCommand } from './sacct.ts';
import { parseSubmittedJobId, sbatchCommand } from './sbatch.ts';
import { createQueueReader, parseSqueueById, squeueByIdCommand, squeueCommand } from './squeue.ts';

export const slurmVariables: CommandVariables = {
  submitCommand: 'sbatch',
  optionPrefixes: ['SBATCH_', 'SQUEUE_', 'SCANCEL_', 'SCONTROL_', 'SACCT_', 'SLURM_'],
  contextVariables: ['SLURM_CONF'],
  // By default Slurm prints local times without a zone; `%s` prints seconds since 1970.
  queryVariables: { SLURM_TIME_FORMAT: '%s' },
};

/** The commands of Slurm. */
export function createSlurmScheduler(run: RunCommand, accounting: Accounting, now: () => number): BatchScheduler {
  const readQueue = createQueueReader(now);

  async function runForEach(refs: readonly string[], signal: AbortSignal, toArgv: (chunk: readonly string[]) => Argv) {
    for (const chunk of chunks(refs)) {
      const argv = toArgv(chunk);
      requireSuccessUnlessFinished(argv[0], await run({ argv }, signal));
    }
  }

  /**
   * A job is forgotten if one of these holds:
   *
   * - it was in the queue, or was not submitted yet, less than MinJobAge ago, so that squeue would still list it, had it ended;
   * - the controller has not assigned its id yet, or has assigned the id to another job.
   */
  async function findForgotten(jobs: readonly UnlistedJob[], signal: AbortSignal): Promise<Set<string>> {
    const output = requireOutput('scontrol', await run({ argv: ['scontrol', 'show', 'config'] }, signal));
    const config = parseControllerConfig(output);
    const currentNames = new Map<string, string>();
    for (const chunk of chunks(jobs)) {
      const refs = chunk.map(({ ref }) => ref);
      const current = parseSqueueById(await run(squeueByIdCommand(refs), signal));
      for (const { ref, name } of current) currentNames.set(ref, name);
    }
    const isForgotten = ({ jobId, ref, lastSeenAt }: UnlistedJob) => {
      const currentName = currentNames.get(ref);
      if (currentName !== undefined) return currentName !== jobId;
      return now() - lastSeenAt < config.minJobAgeMs || Number(ref) >= config.nextJobId;
    };
    return new Set(jobs.filter(isForgotten).map(({ jobId }) => jobId));
  }

  return {
    name: 'Slurm',
    submission: sbatchCommand,
    parseSubmission: parseSubmittedJobId,
    list: async (signal) => readQueue(requireOutput('squeue', await run(squeueCommand(), signal))),
    // A job that cannot be released does not prevent the release of the others.
    release: (refs, signal) => runForEach(refs, signal, (chunk) => ['scontrol', 'release', chunk.join(',')]),
    cancel: (refs, signal) => runForEach(refs, signal, (chunk) => ['scancel', '--me', ...chunk]),
    // In any state. The name must not be empty: scancel would then cancel all jobs.
    cancelByName: (jobId, signal) => runForEach([jobId], signal, () => ['scancel', '--me', `--name=${jobId}`]),
    readEnds:
      accounting === 'none'
        ? null
        : async (refs, signal) => {
            const jobs = parseSacct(requireOutput('sacct', await run(sacctCommand(refs, accounting), signal)));
            return jobs.flatMap((job) => toObservation(job, now()) ?? []);
          },
    findForgotten,
  };
}

type Argv = readonly [string, ...string[]];

/** Throws a transient error unless every failure is about a finished or unknown job. */
function requireSuccessUnlessFinished(program: string, result: RunResult): void {
  if (result.code === 0) return;
  const isFinished = (line: string) => /already complet|already finished|invalid job id/i.test(line);
  const isHarmless = result.code !== null && result.stderr.trim().split('\n').every(isFinished);
  if (!isHarmless) throw unavailableError(program, result);
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

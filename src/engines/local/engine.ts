import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { assertNever, BursarError, errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { Engine, MissingJobStatus } from '../engine.ts';
import type { Account } from '../sandbox/arguments.ts';
import { createEndedJobs } from './ended-jobs.ts';
import { buildCancelledEnd, type JobLimits } from './job-end.ts';
import { createJobList, type LocalJob } from './job-list.ts';
import { signalProcess } from './processes.ts';
import { claimJob, hasRequest, publishRequest, readStart, requestCancellation } from './records.ts';
import type { LocalSandbox } from './sandbox.ts';
import { createScheduler } from './scheduler.ts';
import type { SupervisorClient } from './supervisor/client.ts';

export interface LocalEngineOptions extends JobLimits {
  /** The folder of the engine's records. No other engine may use it at the same time. */
  directory: string;
  /** The number of cores that all running jobs together may use. */
  cores: number;
  /** Undefined: jobs are not isolated. */
  sandbox?: LocalSandbox;
  /** The account that jobs run as; Bursar must then be root. Undefined: the account of Bursar. */
  account?: Account;
  supervisor: SupervisorClient;
  /** Called when records cannot be read, or a job cannot be started. Both are retried. */
  onError(message: string): void;
  /** The time that a supervisor has, beyond the grace period of a job, before the engine ends the job. */
  supervisorGraceSeconds?: number;
  now?: () => number;
}

/**
 * Runs jobs as processes of this machine. Its whole state is in its folder: a new engine on the same folder continues
 * where an earlier one was stopped or killed. Jobs see none of Bursar's environment. The engine does not start more jobs
 * than there are cores, but does not bind a job to its cores. All jobs run as the same user: only with a sandbox are their
 * files and processes, and those of Bursar, safe from a malicious job (docs/security.md).
 */
export function createLocalEngine(options: LocalEngineOptions): Engine {
  const {
    directory,
    cores,
    memoryMb,
    outputKb,
    killGraceSeconds,
    sandbox,
    account,
    supervisor,
    onError,
    supervisorGraceSeconds = 15,
    now = Date.now,
  } = options;
  const limits = { memoryMb, outputKb, killGraceSeconds };
  const listeners: (() => void)[] = [];
  const list = createJobList({ directory, totalCores: cores, limits, supervisorGraceSeconds, now, onError });
  const endedJobs = createEndedJobs(join(directory, '.ended'), now);
  let lastExpected: ReadonlyMap<string, string> | undefined;
  /** Ends of jobs that the engine has forgotten, and that the caller expects. */
  let expectedEnds = new Map<string, JobEnd>();
  const scheduler = createScheduler({
    list,
    totalCores: cores,
    settings: { limits, ...(sandbox ? { sandbox } : {}), ...(account ? { account } : {}) },
    supervisor,
    onError,
    onChange: () => {
      for (const listener of listeners) listener();
    },
  });

  return {
    open: (signal) =>
      mapErrors(signal, async () => {
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await scheduler.withExclusiveList(list.loadAll);
      }),

    submit: (job, signal, options) =>
      mapErrors(signal, async () => {
        const { jobId } = job;
        // The id becomes a folder name.
        if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(jobId)) {
          throw new BursarError(
            'job_refused',
            `The job id ${JSON.stringify(jobId)} cannot be a folder name: use letters, digits, dots, dashes and underscores`,
          );
        }
        if (list.get(jobId) === undefined) {
          options?.beforeSubmission?.();
          await publishRequest(list.folderFor(jobId), { sequence: list.nextSequence(), job });
          await scheduler.withExclusiveList(async () => {
            if (list.get(jobId) === undefined) await list.load(jobId);
          });
        }
        return toRef(jobId);
      }),

    find: (jobs, signal) =>
      mapErrors(signal, async () => {
        const jobIds = jobs.map(({ jobId }) => jobId);
        const ended = await endedJobs.find(jobIds.filter((jobId) => list.get(jobId) === undefined));
        const found = jobs.filter(({ jobId }) => list.get(jobId) !== undefined || ended.has(jobId));
        return new Map(found.map(({ jobId }) => [jobId, toRef(jobId)]));
      }),

    // Jobs need not be held: a supervisor claims a job before running it, so that no job runs twice.
    release: async () => undefined,
    discard: async () => undefined,
    // Every report is right: the records are durable.
    readEndRecords: async () => new Map(),
    preventStart: async () => true,

    // No job goes missing, unless its record was removed.
    inspectMissing: (missing, signal) =>
      mapErrors(signal, async () => {
        const statuses = new Map<string, MissingJobStatus>();
        for (const jobId of missing.keys())
          if (!hasRequest(list.folderFor(jobId))) statuses.set(jobId, { record: 'not_ended', isForgotten: true });
        return statuses;
      }),

    observe: (expected, signal) =>
      mapErrors(signal, async () => {
        if (expected !== lastExpected) {
          // Unknown jobs are expected only of a database that was restored, and of one that has not stored their ends yet.
          expectedEnds = await endedJobs.find([...expected.keys()].filter((jobId) => list.get(jobId) === undefined));
          lastExpected = expected;
        }
        const ended = [...expectedEnds].map(([jobId, end]) =>
          toObservation({ jobId, state: { kind: 'finished', end } }),
        );
        return [...(await scheduler.poll()).map(toObservation), ...ended];
      }),

    cancel: (jobId, signal) =>
      mapErrors(signal, async () => {
        const job = list.get(jobId);
        if (job === undefined || job.state.kind === 'finished') return;
        list.watch(job);
        await cancelJob(job, now());
        scheduler.refresh(job);
      }),

    forget: (jobIds, signal) =>
      mapErrors(signal, async () => {
        await endedJobs.add(endsOf(jobIds.map((jobId) => list.get(jobId))));
        for (const jobId of jobIds) {
          await list.forget(jobId);
          expectedEnds.delete(jobId);
        }
      }),

    onChange: (listener) => {
      listeners.push(listener);
    },

    close: () => scheduler.stop(),
  };
}

function endsOf(jobs: readonly (LocalJob | undefined)[]): Map<string, JobEnd> {
  return new Map(jobs.flatMap((job) => (job?.state.kind === 'finished' ? [[job.jobId, job.state.end] as const] : [])));
}

const toRef = (jobId: string) => `local:${jobId}`;

/** Claims the job so that it never runs. If a supervisor has claimed it before, tells the supervisor to end it. */
async function cancelJob({ folder }: LocalJob, at: number): Promise<void> {
  if (await claimJob(folder, { kind: 'withdrawn', end: buildCancelledEnd(at) })) return;
  const start = readStart(folder);
  if (typeof start !== 'object' || start.kind !== 'supervised') return;
  // The supervisor finds the request even without the signal, with which it looks for it at once.
  await requestCancellation(folder);
  // A stopped process handles SIGHUP only after SIGCONT.
  await signalProcess(start.supervisor, 'SIGHUP', 'SIGCONT');
}

function toObservation({ jobId, state }: Pick<LocalJob, 'jobId' | 'state'>): Observation {
  switch (state.kind) {
    case 'queued':
      return { jobId, ref: toRef(jobId), kind: 'queued', held: false };
    case 'running':
      return { jobId, ref: toRef(jobId), kind: 'running', startedAt: state.startedAt };
    case 'finished':
      return { jobId, ref: toRef(jobId), kind: 'finished', ...state.end };
    default:
      return assertNever(state);
  }
}

/** Every unexpected error becomes a transient `unavailable`: the records cannot be read or written at the moment. */
async function mapErrors<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await work();
  } catch (error) {
    if (error instanceof BursarError) throw error;
    const message = `The local engine cannot use its records (${errnoCode(error) ?? 'internal error'})`;
    throw new BursarError('unavailable', message, { cause: error, transient: true });
  }
}

import { BursarError } from '../../domain/errors.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import { createSlots } from '../../domain/slots.ts';
import { coalesce } from '../../shell/coalesce.ts';
import { type Engine, type EngineJob, type SubmitOptions, startDirectoryOf } from '../engine.ts';
import { preventStarts, readEndRecords } from './end-records.ts';
import { createEndReader, createMissingJobInspector } from './missing-jobs.ts';
import { createReleaser } from './releaser.ts';
import { isJobName, type RunCommand } from './run-command.ts';
import type { BatchJob, BatchScheduler } from './scheduler.ts';
import { checkLocalScript, requireRunnableScript, scriptCheck } from './script-check.ts';

export interface BatchEngineOptions {
  scheduler: BatchScheduler;
  run: RunCommand;
  /** Whether the commands run on this host. */
  isLocal: boolean;
  /** Builds the batch script of a job. Throws `job_refused` if its command can never run. */
  buildScript(job: EngineJob): string;
  now(): number;
}

/**
 * Runs jobs through the command line of a batch scheduler. The engine stores nothing: a job's name in the scheduler is its Bursar
 * job id, and what the scheduler prints is the only source of job states. The number of polling commands does not depend on the
 * number of jobs.
 */
export function createBatchEngine({ scheduler, run, isLocal, buildScript, now }: BatchEngineOptions): Engine {
  const readEnds = createEndReader(scheduler, now);
  const missingJobs = createMissingJobInspector(run, scheduler, now);
  /** Serialises the submissions of each job id: two concurrent ones would both find no earlier job, and both submit. */
  const submissions = createSlots({ perKey: 1 });
  /** Job names by ref, from the last `observe`: `discard` receives refs without names. */
  let observedNames = new Map<string, string>();
  let lastFinished: Observation[] = [];
  /**
   * Finished jobs that the caller has forgotten but the scheduler still lists: job ids by ref. A controller that was killed can
   * give the ref to another job.
   */
  const forgotten = new Map<string, string>();
  /**
   * Names of the jobs that were in the queue when this engine last read it, or were submitted since. A job that the caller
   * submits for the first time is among them if its database has lost the first submission: it was restored from an older
   * backup, or its last commits were lost with a server.
   */
  let queuedNames: Set<string> | undefined;

  /** Lists all jobs of Bursar, in the order of their submissions. */
  const listCoalesced = coalesce(async (_, signal): Promise<BatchJob[]> => {
    const queue = await scheduler.list(signal);
    missingJobs.recordQueue(queue);
    queuedNames = new Set(queue.map(({ name }) => name));
    return queue.sort((a, b) => Number.parseInt(a.ref, 10) - Number.parseInt(b.ref, 10));
  });
  const listJobs = (signal: AbortSignal) => listCoalesced(undefined, signal);

  const releaser = createReleaser(scheduler, listJobs, now);

  const prevent = coalesce((directories: string[], signal) => preventStarts(run, directories, signal));

  /** Lists the jobs of the scheduler that count as submissions of these jobs, in the order of the submissions. */
  async function findSubmitted(jobs: Parameters<Engine['find']>[0], signal: AbortSignal): Promise<BatchJob[]> {
    const workspaces = new Map(jobs.map(({ jobId, workspace }) => [jobId, workspace]));
    // A controller that is killed can forget a job of which `discard` has cancelled the duplicates.
    const submitted = (await listJobs(signal)).filter((job) => workspaces.has(job.name) && !job.wasCancelledHeld);
    const refused = new Set(submitted.filter(({ mayBeRefused }) => mayBeRefused).map(({ name }) => name));
    if (refused.size === 0) return submitted;
    for (const name of workspaces.keys()) if (!refused.has(name)) workspaces.delete(name);
    const records = await readEndRecords(run, workspaces, signal);
    return submitted.filter((job) => !job.mayBeRefused || records.get(job.name) !== 'never_started');
  }

  /** Whether the scheduler certainly does not have the job, so that the queue need not be searched for it. */
  async function isNew({ jobId }: EngineJob, { isFirstTry = false }: SubmitOptions, signal: AbortSignal) {
    if (!isFirstTry) return false;
    if (queuedNames === undefined) await listJobs(signal);
    return queuedNames?.has(jobId) === false;
  }

  async function submit(job: EngineJob, signal: AbortSignal, options: SubmitOptions): Promise<string> {
    const { command } = job;
    if (!(await isNew(job, options, signal))) {
      // An earlier submission may have succeeded although its response was lost. Jobs are submitted held, so none has run.
      const [existing, ...duplicates] = await findSubmitted([job], signal);
      const heldDuplicates = duplicates.filter(({ isHeld }) => isHeld).map(({ ref }) => ref);
      if (existing !== undefined) options.beforeSubmission?.();
      if (heldDuplicates.length > 0) await scheduler.cancel(heldDuplicates, signal);
      if (existing !== undefined) return existing.ref;
    }
    const script = command.kind === 'script' ? command.script : null;
    const submission = scheduler.submission(job, buildScript(job));
    if (script !== null && isLocal) await checkLocalScript(startDirectoryOf(job), script);
    else if (script !== null) submission.precondition = scriptCheck(startDirectoryOf(job), script);
    options.beforeSubmission?.();
    queuedNames?.add(job.jobId);
    const submittedAt = now();
    const result = await run(submission, signal);
    if (script !== null) requireRunnableScript(script, result);
    const ref = scheduler.parseSubmission(result);
    releaser.recordSubmission(job.jobId, ref, submittedAt);
    missingJobs.recordJob(job.jobId, ref, submittedAt);
    return ref;
  }

  return {
    open: async () => undefined,

    async submit(job, signal, options = {}) {
      const { jobId } = job;
      if (!isJobName(jobId)) {
        throw new BursarError(
          'job_refused',
          `The job id ${JSON.stringify(jobId)} cannot be used as a job name of ${scheduler.name}`,
        );
      }
      return await submissions.run(() => submit(job, signal, options), { key: jobId });
    },

    release: releaser.release,

    async find(jobs, signal) {
      const findable = jobs.filter(({ jobId }) => isJobName(jobId));
      if (findable.length === 0) return new Map();
      const submitted = await findSubmitted(findable, signal);
      // Reversed, so that the first submission of a name is written last and wins.
      return new Map(submitted.reverse().map(({ name, ref }) => [name, ref]));
    },

    async observe(expected, signal) {
      const queue = await listJobs(signal);
      observedNames = new Map();
      for (const { ref, name } of queue) observedNames.set(ref, name);
      for (const [ref, jobId] of forgotten) if (observedNames.get(ref) !== jobId) forgotten.delete(ref);
      const missing = new Map<string, string>();
      for (const [jobId, ref] of expected) if (observedNames.get(ref) !== jobId) missing.set(jobId, ref);
      const current: Observation[] = [];
      for (const { observation } of queue) {
        if (observation === null) continue;
        const { kind, jobId, ref } = observation;
        const isDuplicate = expected.has(jobId) && expected.get(jobId) !== ref;
        // A duplicate submission that has finished needs no `discard`.
        if (kind !== 'finished' || !(forgotten.get(ref) === jobId || isDuplicate)) current.push(observation);
      }
      lastFinished = current.filter(({ kind }) => kind === 'finished');
      return current.concat(await readEnds(missing, signal));
    },

    readEndRecords: (workspaces, signal) => readEndRecords(run, workspaces, signal),

    preventStart: async ({ directory }, signal) => (await prevent(directory, signal)).has(directory),

    inspectMissing: missingJobs.inspect,

    async discard(refs, signal) {
      const unwanted = new Set(refs);
      // Cancels held jobs only: a job that is not held was released after its id had been stored, so it is wanted.
      const jobs = (await listJobs(signal)).filter((job) => job.isHeld && unwanted.has(job.ref));
      // A ref may have been given to another job since the last `observe`.
      const duplicates = jobs.filter(({ ref, name }) => (observedNames.get(ref) ?? name) === name);
      if (duplicates.length === 0) return;
      await scheduler.cancel(
        duplicates.map(({ ref }) => ref),
        signal,
      );
    },

    async cancel(jobId, signal) {
      if (isJobName(jobId)) await scheduler.cancelByName(jobId, signal);
    },

    async forget(jobIds) {
      const ended = new Set(jobIds);
      for (const { jobId, ref } of lastFinished) if (ended.has(jobId)) forgotten.set(ref, jobId);
    },

    // The watcher polls.
    onChange: () => undefined,

    close: async () => undefined,
  };
}

import { chunks } from '../../domain/chunks.ts';
import { BursarError } from '../../domain/errors.ts';
import { refusalExitCode } from '../../domain/jobs/end-record.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import { createSlots } from '../../domain/slots.ts';
import type { BatchIsolation as SlurmIsolation } from '../batch/resolve-isolation.ts';
import { type Engine, type EngineJob, type SubmitOptions, startDirectoryOf } from '../engine.ts';
import { createAccountingReader } from './accounting-reader.ts';
import { coalesce } from './coalesce.ts';
import {
  type CommandOptions,
  createRunCommand,
  isJobName,
  requireOutput,
  requireSuccessUnlessFinished,
} from './commands.ts';
import { preventStarts, readEndRecords } from './end-records.ts';
import { createMissingJobInspector } from './missing-jobs.ts';
import { createQueueReader, type QueueEntry } from './queue-reader.ts';
import { createReleaser } from './releaser.ts';
import type { Accounting } from './sacct.ts';
import { parseSubmittedJobId, sbatchCommand } from './sbatch.ts';
import { scancelById, scancelByName } from './scancel.ts';
import { parsePing, pingCommand } from './scontrol.ts';
import { checkLocalScript, requireRunnableScript, scriptCheck } from './script-check.ts';
import type { SlurmJob } from './slurm-job.ts';
import { squeueCommand } from './squeue.ts';

export interface SlurmEngineOptions extends CommandOptions {
  accounting: Accounting;
  /** How jobs are isolated; null if they are not. */
  isolation: SlurmIsolation | null;
  now?: () => number;
}

/**
 * Runs jobs through Slurm's command line. The engine stores nothing: a job's name in Slurm is its Bursar job id, and
 * Slurm's own output is the only source of job states. The number of polling commands does not depend on the number of
 * jobs.
 */
export function createSlurmEngine(engineOptions: SlurmEngineOptions): Engine {
  const { isolation, now = Date.now } = engineOptions;
  const { isLocal } = engineOptions.shell;
  const run = createRunCommand(engineOptions);
  const readAccounting = createAccountingReader(engineOptions.accounting, run, now);
  const missingJobs = createMissingJobInspector(run, now);
  const readQueue = createQueueReader(now);
  /** Serialises the submissions of each job id: two concurrent ones would both find no earlier job, and both submit. */
  const submissions = createSlots({ perKey: 1 });
  /** Job names by Slurm id, from the last `observe`: `discard` receives ids without names. */
  let observedNames = new Map<string, string>();
  let lastFinished: Observation[] = [];
  /**
   * Finished jobs that the caller has forgotten but squeue still lists: job ids by Slurm id. A controller that was killed can
   * give the id to another job.
   */
  const forgotten = new Map<string, string>();
  let lastAnsweredAt: number | null = null;
  /**
   * Names of the jobs that were in the queue when this engine last read it, or were submitted since. A job that the caller
   * submits for the first time is among them if its database has lost the first submission: it was restored from an older
   * backup, or its last commits were lost with a server.
   */
  let queuedNames: Set<string> | undefined;

  /** Reads all jobs of Bursar from squeue, in ascending order of their Slurm ids. */
  const squeue = coalesce(async (_, signal): Promise<QueueEntry[]> => {
    const queue = readQueue(requireOutput('squeue', await run(squeueCommand(), signal)));
    lastAnsweredAt = now();
    missingJobs.recordQueue(queue);
    queuedNames = new Set(queue.map(({ job }) => job.name));
    return queue.sort((a, b) => Number(a.job.ref) - Number(b.job.ref));
  });
  const listJobs = async (signal: AbortSignal) => (await squeue(undefined, signal)).map(({ job }) => job);

  const releaser = createReleaser(run, async (signal) => (await listJobs(signal)).filter(isHeld), now);

  const prevent = coalesce((directories: string[], signal) => preventStarts(run, directories, signal));

  async function scancel(refs: readonly string[], signal: AbortSignal): Promise<void> {
    for (const chunk of chunks(refs)) requireSuccessUnlessFinished('scancel', await run(scancelById(chunk), signal));
  }

  /** Lists the jobs in Slurm that count as submissions of these jobs, in ascending order of their Slurm ids. */
  async function findSubmitted(jobs: Parameters<Engine['find']>[0], signal: AbortSignal): Promise<SlurmJob[]> {
    const workspaces = new Map(jobs.map(({ jobId, workspace }) => [jobId, workspace]));
    const submitted = (await listJobs(signal)).filter((job) => workspaces.has(job.name) && !wasDiscarded(job));
    const refused = new Set(submitted.filter(mayBeRefused).map(({ name }) => name));
    if (refused.size === 0) return submitted;
    for (const name of workspaces.keys()) if (!refused.has(name)) workspaces.delete(name);
    const records = await readEndRecords(run, workspaces, signal);
    return submitted.filter((job) => !mayBeRefused(job) || records.get(job.name) !== 'never_started');
  }

  /** Whether Slurm certainly does not have the job, so that the queue need not be searched for it. */
  async function isNew({ jobId }: EngineJob, { isFirstTry = false }: SubmitOptions, signal: AbortSignal) {
    if (!isFirstTry) return false;
    if (queuedNames === undefined) await listJobs(signal);
    return queuedNames?.has(jobId) === false;
  }

  async function submit(job: EngineJob, signal: AbortSignal, options: SubmitOptions): Promise<string> {
    const { command } = job;
    if (!(await isNew(job, options, signal))) {
      // An earlier sbatch may have succeeded although its response was lost. Jobs are submitted held, so none has run.
      const [existing, ...duplicates] = await findSubmitted([job], signal);
      const heldDuplicates = duplicates.filter(isHeld).map(({ ref }) => ref);
      if (existing !== undefined) options.beforeSubmission?.();
      if (heldDuplicates.length > 0) await scancel(heldDuplicates, signal);
      if (existing !== undefined) return existing.ref;
    }
    const script = command.kind === 'script' ? command.script : null;
    const submission = sbatchCommand(job, isolation);
    if (script !== null && isLocal) await checkLocalScript(startDirectoryOf(job), script);
    else if (script !== null) submission.precondition = scriptCheck(startDirectoryOf(job), script);
    options.beforeSubmission?.();
    queuedNames?.add(job.jobId);
    const submittedAt = now();
    const result = await run(submission, signal);
    if (script !== null) requireRunnableScript(script, result);
    const ref = parseSubmittedJobId(result);
    releaser.recordSubmission(job.jobId, ref, submittedAt);
    missingJobs.recordJob(job.jobId, ref, submittedAt);
    return ref;
  }

  return {
    open: async () => undefined,

    async submit(job, signal, options = {}) {
      const { jobId } = job;
      if (!isJobName(jobId)) {
        throw new BursarError('job_refused', `The job id ${JSON.stringify(jobId)} cannot be used as a Slurm job name`);
      }
      return await submissions.run(() => submit(job, signal, options), { key: jobId });
    },

    release: releaser.release,

    async find(jobs, signal) {
      const findable = jobs.filter(({ jobId }) => isJobName(jobId));
      if (findable.length === 0) return new Map();
      const submitted = await findSubmitted(findable, signal);
      // Reversed, so that the lowest id of a name is written last and wins.
      return new Map(submitted.reverse().map(({ name, ref }) => [name, ref]));
    },

    async observe(expected, signal) {
      const queue = await squeue(undefined, signal);
      observedNames = new Map();
      for (const { job } of queue) observedNames.set(job.ref, job.name);
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
      return current.concat(await readAccounting(missing, signal));
    },

    readEndRecords: (workspaces, signal) => readEndRecords(run, workspaces, signal),

    preventStart: async ({ directory }, signal) => (await prevent(directory, signal)).has(directory),

    inspectMissing: missingJobs.inspect,

    async discard(refs, signal) {
      const unwanted = new Set(refs);
      // Cancels held jobs only: a job that is not held was released after its id had been stored, so it is wanted.
      const jobs = (await listJobs(signal)).filter((job) => unwanted.has(job.ref) && isHeld(job));
      // Slurm may have given an id to another job since the last `observe`.
      const duplicates = jobs.filter(({ ref, name }) => (observedNames.get(ref) ?? name) === name);
      const duplicateRefs = duplicates.map(({ ref }) => ref);
      await scancel(duplicateRefs, signal);
    },

    async cancel(jobId, signal) {
      if (isJobName(jobId)) requireSuccessUnlessFinished('scancel', await run(scancelByName(jobId), signal));
    },

    async forget(jobIds) {
      const ended = new Set(jobIds);
      for (const { jobId, ref } of lastFinished) if (ended.has(jobId)) forgotten.set(ref, jobId);
    },

    async health(signal) {
      const { ok, detail } = parsePing(await run(pingCommand(), signal));
      if (lastAnsweredAt === null) return { ok, detail };
      return { ok, detail: `${detail}; squeue last answered ${Math.round((now() - lastAnsweredAt) / 1000)} s ago` };
    },

    // Slurm sends no notifications; the watcher polls.
    onChange: () => undefined,

    close: async () => undefined,
  };
}

/**
 * A killed controller gives the ids of forgotten jobs again. A node that still knows the old job of the id refuses to start
 * the new one. Slurm then cancels the new one, or reports an exit code if the node has just killed the old one.
 */
function mayBeRefused({ state, exit, nodeList }: SlurmJob): boolean {
  if (nodeList === '') return false;
  return state === 'CANCELLED' || (state === 'FAILED' && exit.notRun === undefined && exit.code === refusalExitCode);
}

const isHeld = ({ state, reason }: SlurmJob) => state === 'PENDING' && reason === 'JobHeldUser';

/**
 * `discard` has cancelled this submission as a duplicate. A controller that is killed can then forget the other one, and the
 * job must be submitted again.
 */
const wasDiscarded = ({ state, reason }: SlurmJob) => state === 'CANCELLED' && reason === 'JobHeldUser';

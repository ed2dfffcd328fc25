import { toTimeLimitSeconds } from '../../domain/accounting/charge.ts';
import { type EndRecord, isUncertain, reconcileEnd, wasEndedBeforeStart } from '../../domain/jobs/end-record.ts';
import { applyFileLimit } from '../../domain/jobs/file-limits.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { type Observation, transition } from '../../domain/jobs/transition.ts';
import { createSlots } from '../../domain/slots.ts';
import { requeueJob } from '../../store/jobs/job-queue.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import { inSpanOf, type SpanAttributes } from '../../tracing/tracing.ts';
import { advanceJob } from './advance-job.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

export type FinishedObservation = Extract<Observation, { kind: 'finished' }>;

/** Workspaces that are measured at the same time. */
const concurrency = 8;
/** A job that its system has ended so often before its start is not submitted any more. */
const maxUnstartedEnds = 5;

/** Reading more of the files of a job than this many times `limits.files` would only delay its end, and that of others. */
const maxMeasuredFactor = 10;

/** How long an uncertain end waits for the record or the report of the real end. */
const maxRecordDelayMs = 60_000;

/**
 * Stores the ends of jobs: the outcome, the charge and the size of the files. This runs beside the polls of the watcher,
 * because reading the files of one job can take long: its end must not delay the ends of other jobs. An end that cannot
 * be stored is reported by the engine again, and stored after a later poll.
 */
export function createJobEnds(deps: LeasedSystemDeps, onRequeued: () => void) {
  const { engine, system, workspaces, log } = deps;
  const slots = createSlots({ total: concurrency });
  const stopping = new AbortController();
  /** The jobs whose ends are being stored. */
  const inProgress = new Set<string>();
  const batches = new Set<Promise<unknown>>();
  /**
   * How often the system has ended a job before its start. Not stored: after a restart the job may be submitted a few times more.
   * `tries` would count submissions that a crash of the server has interrupted, too.
   */
  const unstartedEnds = new Map<string, number>();

  /** Returns whether the end is stored. */
  async function storeEnd(observation: FinishedObservation, record: EndRecord | undefined): Promise<boolean> {
    const { jobId } = observation;
    try {
      if (stopping.signal.aborted) return false;
      const count = (unstartedEnds.get(jobId) ?? 0) + 1;
      const result = await storeJobEnd(deps, observation, record, count < maxUnstartedEnds, stopping.signal);
      if (result === 'requeued') {
        unstartedEnds.set(jobId, count);
        onRequeued();
      }
      if (result === 'stored') {
        unstartedEnds.delete(jobId);
        // The engine may forget a job only when its end is stored: now, or earlier, by a process that was killed then.
        await forget(jobId);
      }
      return result === 'stored';
    } catch (error) {
      if (!stopping.signal.aborted) {
        log.error({ err: error, hpc: system.name, jobId }, 'job end not stored, will retry');
      }
      return false;
    } finally {
      inProgress.delete(jobId);
    }
  }

  /** Never throws: the next poll reports the job again, and the watcher repeats this. */
  async function forget(jobId: string): Promise<void> {
    try {
      await engine.forget([jobId], stopping.signal);
    } catch (error) {
      if (!stopping.signal.aborted)
        log.warn({ err: error, hpc: system.name, jobId }, 'ended job not forgotten, will retry');
    }
  }

  async function storeBatch(ends: readonly FinishedObservation[]): Promise<string[]> {
    let records: Map<string, EndRecord>;
    try {
      const paths = new Map(ends.map(({ jobId }) => [jobId, workspaces.pathsOf(jobId)]));
      records = await engine.readEndRecords(paths, stopping.signal);
    } catch (error) {
      for (const { jobId } of ends) inProgress.delete(jobId);
      if (!stopping.signal.aborted) {
        log.warn({ err: error, hpc: system.name, jobs: ends.length }, 'end records not read, will retry');
      }
      return [];
    }
    const stored = await Promise.all(ends.map((end) => slots.run(() => storeEnd(end, records.get(end.jobId)))));
    return ends.filter((_, index) => stored[index]).map(({ jobId }) => jobId);
  }

  return {
    /**
     * Stores the ends of jobs, unless that is in progress already. Returns the ids of the jobs whose ends it stored. Never
     * throws. A poll must not wait for it.
     */
    async store(ends: readonly FinishedObservation[]): Promise<string[]> {
      const newEnds = ends.filter(({ jobId }) => !inProgress.has(jobId));
      if (newEnds.length === 0) return [];
      for (const { jobId } of newEnds) inProgress.add(jobId);
      const batch = storeBatch(newEnds);
      batches.add(batch);
      try {
        return await batch;
      } finally {
        batches.delete(batch);
      }
    },

    /** Waits for the ends that are being stored. */
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(batches);
    },
  };
}

export type JobEnds = ReturnType<typeof createJobEnds>;

/** Records the run of a job in the trace of its submission, with the times that the system reported. */
function recordRun(
  { tracing }: LeasedSystemDeps,
  { traceParent }: JobRecord,
  end: JobEnd,
  attributes: SpanAttributes,
): void {
  const { startedAt, endedAt, outcome } = end;
  if (tracing === null || traceParent === null || startedAt === null) return;
  const span = tracing.startSpan('job run', { parent: traceParent, startedAt, attributes });
  span.end({ endedAt, hasFailed: outcome !== 'succeeded' });
}

/**
 * `requeued`: nothing of the job ran, and the dispatcher submits it again. `unchanged`: another process has changed the
 * job meanwhile, and the next poll shows whether the end still applies.
 */
async function storeJobEnd(
  deps: LeasedSystemDeps,
  observation: FinishedObservation,
  record: EndRecord | undefined,
  mayRequeue: boolean,
  signal: AbortSignal,
): Promise<'stored' | 'requeued' | 'unchanged'> {
  const { db, lease, engine, system, workspaces, now, log } = deps;
  const job = await findJob(db, observation.jobId);
  if (job === undefined) return 'stored';
  if (job.engineRef !== observation.ref) return 'unchanged';
  const { cancelRequestedAt } = job;
  // As long as users have not seen the job running, nothing but its place in the queue changes.
  const canRequeue = mayRequeue && job.status.state === 'queued';
  if (canRequeue && wasEndedBeforeStart(observation, record, cancelRequestedAt !== null)) {
    if (!(await lease.transaction((tx) => requeueJob(tx, job.jobId, observation.ref, now())))) return 'unchanged';
    log.warn(
      { hpc: system.name, jobId: job.jobId, ref: observation.ref },
      'system ended job before its start, requeued',
    );
    return 'requeued';
  }
  // A controller that forgot the start of a job kills it soon, and a node can report an exit late.
  if (isUncertain(observation, record) && now() - observation.endedAt < maxRecordDelayMs) return 'unchanged';
  const runtimeSeconds = toTimeLimitSeconds(job.request.runtimeHours);
  const end = { ...observation, ...reconcileEnd(observation, record, { runtimeSeconds, cancelRequestedAt }) };
  const next = transition(job.status, end, job.cancelRequestedBy);
  if (next?.state !== 'ended') return 'stored';
  if (record === 'never_started' && !(await engine.preventStart(workspaces.pathsOf(job.jobId), signal)))
    return 'unchanged';
  const maxEntries = system.limits.files * maxMeasuredFactor;
  const usage = (await workspaces.measure([job.jobId], signal, maxEntries)).get(job.jobId) ?? { bytes: 0, entries: 0 };
  const ended = applyFileLimit(next, usage, system.limits.files);
  // The size is a lower bound if there are more files.
  const change = { next: ended, spaceBytes: usage.bytes, engineMessage: observation.engineMessage };
  const attributes = { 'bursar.hpc': system.name, 'bursar.job_id': job.jobId, 'bursar.outcome': ended.outcome };
  const isStored = await inSpanOf(deps.tracing, job.traceParent, 'settle', attributes, () =>
    advanceJob(deps, job, change),
  );
  if (!isStored) return 'unchanged';
  recordRun(deps, job, ended, attributes);
  const { outcome, reason } = ended;
  log.info({ hpc: system.name, jobId: job.jobId, state: ended.state, outcome, reason }, 'job state changed');
  return 'stored';
}

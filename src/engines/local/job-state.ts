import type { JobEnd } from '../../domain/jobs/job.ts';
import { removeTree } from '../../files/workspaces/remove-tree.ts';
import type { EngineJob } from '../engine.ts';
import { scratchFolder } from './environment.ts';
import { buildLostEnd, buildOverdueEnd, findOverdue, type JobLimits } from './job-end.ts';
import type { JobProcessSelector } from './process-table.ts';
import { hasProcesses, killJob, signalProcess } from './processes.ts';
import {
  claimJob,
  monotonicNowMs,
  readCancellation,
  readEnd,
  readGroup,
  readStart,
  recordEnd,
  reserveEnd,
  type StartRecord,
} from './records.ts';

/** The state of a job according to its record and the process table. */
export type LocalJobState =
  | { kind: 'queued' }
  | { kind: 'running'; startedAt: number }
  | { kind: 'finished'; end: JobEnd };

export interface StateReaderOptions {
  limits: JobLimits;
  supervisorGraceSeconds: number;
  now: () => number;
}

/** A job with its record folder. `job` is null if the request record cannot be read. */
export interface RecordedJob {
  folder: string;
  jobId: string;
  job: EngineJob | null;
}

type SupervisedStart = Extract<StartRecord, { kind: 'supervised' }>;

/** A supervisor whose job has ended gets this long to record the end, while the disk takes new files. */
const recordingMs = 600_000;

export function createStateReader({ limits, supervisorGraceSeconds, now }: StateReaderOptions) {
  /** When the disk last refused a record, or when this reader was created: the disk may have been full just before. */
  let diskRefusedAtMs = monotonicNowMs();

  /** Whether the disk has taken records for as long as a supervisor gets, so that it does not wait for the disk. */
  async function hadSpaceToRecord(folder: string): Promise<boolean> {
    try {
      (await reserveEnd(folder)).discard();
    } catch {
      diskRefusedAtMs = monotonicNowMs();
    }
    return monotonicNowMs() - diskRefusedAtMs > recordingMs;
  }

  /**
   * Reads the state of a job. If its supervisor died without recording an end, or does not end the job in time, kills the
   * job's remaining processes and records the end here. A finished job stays finished, with the same end.
   */
  async function readJobState(recorded: RecordedJob): Promise<LocalJobState> {
    const { folder } = recorded;
    const endAsLost = (reason: string, startedAt: number | null) =>
      endOrphanedJob(recorded, buildLostEnd(reason, startedAt, now()));
    const start = readStart(folder);
    if (start === 'absent') return { kind: 'queued' };
    const end = readEnd(folder);
    if (typeof end === 'object') return { kind: 'finished', end };
    if (start === 'damaged') return endAsLost('its start record is damaged', null);
    if (start.kind === 'withdrawn') return { kind: 'finished', end: await recordEnd(folder, start.end) };
    const { supervisor, startedAt } = start;
    if (end === 'damaged') return endAsLost('its exit record is damaged', startedAt);
    // A job can stop its supervisor. Here it continues.
    if (!(await signalProcess(supervisor, 'SIGCONT')))
      return endAsLost('its supervisor died (was the machine restarted?)', startedAt);
    const overdueEnd = await findOverdueEnd(recorded, start);
    if (overdueEnd === null) return { kind: 'running', startedAt };
    const state = await endOrphanedJob(recorded, overdueEnd);
    // The job may have stopped it again. It has other jobs too.
    await signalProcess(supervisor, 'SIGCONT');
    return state;
  }

  /**
   * A job can stop its supervisor again and again, and a supervisor can hang. If the job should have ended long ago, returns its
   * end. Returns null if the supervisor may still end the job by itself.
   */
  async function findOverdueEnd(recorded: RecordedJob, start: SupervisedStart): Promise<JobEnd | null> {
    const { folder, job } = recorded;
    if (job === null) return null;
    const { startedAt } = start;
    const elapsedMs = monotonicNowMs() - start.startedAtMonotonicMs;
    const cancelledAtMs = readCancellation(folder);
    const sinceCancellationMs = typeof cancelledAtMs === 'number' ? monotonicNowMs() - cancelledAtMs : null;
    const overdue = findOverdue(elapsedMs - job.runtimeSeconds * 1000, sinceCancellationMs);
    const allowedMs = (limits.killGraceSeconds + supervisorGraceSeconds) * 1000;
    if (overdue === null || overdue.overdueMs < allowedMs) return null;
    // A job without processes has ended, and its supervisor knows how. It may be waiting for space on the disk.
    const isEnding = !(await hasProcesses(await readSelector(recorded)));
    if (isEnding && (overdue.overdueMs < allowedMs + recordingMs || !(await hadSpaceToRecord(folder)))) return null;
    return buildOverdueEnd(overdue, job, limits, { startedAt, endedAt: Math.max(startedAt, now()), elapsedMs });
  }

  return {
    readJobState,

    /** Ends a job that cannot run because its request record is damaged, unless a supervisor has already claimed it. */
    async endDamagedRequest(recorded: RecordedJob): Promise<LocalJobState> {
      const end = buildLostEnd('its request record is damaged', null, now());
      await claimJob(recorded.folder, { kind: 'withdrawn', end });
      return await readJobState(recorded);
    },
  };
}

/**
 * Ends a job whose supervisor has died or does not respond. The supervisor may have recorded an end just before: the first end
 * wins. It is not killed, because it runs other jobs too. If it continues, it does not start a job that has an end.
 */
async function endOrphanedJob(recorded: RecordedJob, end: JobEnd): Promise<LocalJobState> {
  await killJob(await readSelector(recorded));
  if (recorded.job !== null) await removeTree(scratchFolder(recorded.job));
  return { kind: 'finished', end: await recordEnd(recorded.folder, end) };
}

async function readSelector({ folder, jobId }: RecordedJob): Promise<JobProcessSelector> {
  const group = readGroup(folder);
  if (typeof group === 'string') return { jobId, leader: null };
  const { isSandboxed, ...leader } = group;
  return { jobId, leader, isSandboxed };
}

import { rm } from 'node:fs/promises';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { scratchFolder } from './environment.ts';
import { buildLostEnd } from './job-end.ts';
import { isAlive, killJob } from './processes.ts';
import { claimJob, readEnd, readGroup, readRequest, readStart, recordEnd } from './records.ts';

/** The state of a job according to its record and the process table. */
export type LocalJobState =
  | { kind: 'queued' }
  | { kind: 'running'; startedAt: number }
  | { kind: 'finished'; end: JobEnd };

/**
 * Reads the state of a job. If its supervisor died without recording an end, kills the job's remaining processes and
 * records the end here. A finished job stays finished, with the same end.
 */
export async function readJobState(folder: string, jobId: string, now: () => number): Promise<LocalJobState> {
  const endAsLost = (reason: string, startedAt: number | null) =>
    endOrphanedJob(folder, jobId, buildLostEnd(reason, startedAt, now()));
  const start = await readStart(folder);
  if (start === 'absent') return { kind: 'queued' };
  const end = await readEnd(folder);
  if (typeof end === 'object') return { kind: 'finished', end };
  if (start === 'damaged') return endAsLost('its start record is damaged', null);
  if (start.kind === 'withdrawn') return { kind: 'finished', end: await recordEnd(folder, start.end) };
  const { supervisor, startedAt } = start;
  if (end === 'damaged') return endAsLost('its exit record is damaged', startedAt);
  if (await isAlive(supervisor)) return { kind: 'running', startedAt };
  return endAsLost('its supervisor died (was the machine restarted?)', startedAt);
}

/** Ends a job that cannot run because its request record is damaged, unless a supervisor has already claimed it. */
export async function endDamagedRequest(folder: string, jobId: string, now: () => number): Promise<LocalJobState> {
  await claimJob(folder, { kind: 'withdrawn', end: buildLostEnd('its request record is damaged', null, now()) });
  return readJobState(folder, jobId, now);
}

/** Ends a job without a supervisor. The supervisor may have recorded an end just before it died: the first end wins. */
async function endOrphanedJob(folder: string, jobId: string, end: JobEnd): Promise<LocalJobState> {
  const group = await readGroup(folder);
  await killJob({ jobId, leader: typeof group === 'object' ? group : null });
  const request = await readRequest(folder);
  if (typeof request === 'object') await rm(scratchFolder(request.job), { recursive: true, force: true });
  return { kind: 'finished', end: await recordEnd(folder, end) };
}

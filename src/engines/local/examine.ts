import { rm } from 'node:fs/promises';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { endLost } from './ending.ts';
import { scratchFolderOf } from './environment.ts';
import { isAlive, killJob } from './processes.ts';
import { claim, readEnd, readGroup, readRequest, readStart, recordEnd } from './records.ts';

/** What has become of a job, as its record and the process table tell. */
export type LocalJobState =
  | { kind: 'queued' }
  | { kind: 'running'; startedAt: number }
  | { kind: 'finished'; end: JobEnd };

/**
 * Looks at a job. One whose supervisor has died without recording an end is ended here, with all that is left of
 * it. A job that was once found finished is found so again, with the same end.
 */
export async function examine(folder: string, jobId: string, now: () => number): Promise<LocalJobState> {
  const start = await readStart(folder);
  if (start === 'absent') return { kind: 'queued' };
  const end = await readEnd(folder);
  if (typeof end === 'object') return { kind: 'finished', end };
  if (start === 'damaged') return abandon(folder, jobId, endLost('its start record is damaged', null, now()));
  if (start.kind === 'withdrawn') return { kind: 'finished', end: await recordEnd(folder, start.end) };
  const { supervisor, startedAt } = start;
  if (end === 'damaged') return abandon(folder, jobId, endLost('its exit record is damaged', startedAt, now()));
  if (await isAlive(supervisor)) return { kind: 'running', startedAt };
  return abandon(folder, jobId, endLost('its supervisor died (was the machine restarted?)', startedAt, now()));
}

/** Ends a job that cannot run because its request is unreadable, unless a supervisor has it already. */
export async function withdrawDamaged(folder: string, jobId: string, now: () => number): Promise<LocalJobState> {
  await claim(folder, { kind: 'withdrawn', end: endLost('its request record is damaged', null, now()) });
  return examine(folder, jobId, now);
}

/**
 * The supervisor is dead, but may have recorded the end just before: whichever end was recorded first stands.
 */
async function abandon(folder: string, jobId: string, end: JobEnd): Promise<LocalJobState> {
  const group = await readGroup(folder);
  await killJob({ jobId, leader: typeof group === 'object' ? group : null });
  const request = await readRequest(folder);
  if (typeof request === 'object') await rm(scratchFolderOf(request.job), { recursive: true, force: true });
  return { kind: 'finished', end: await recordEnd(folder, end) };
}

import { setTimeout as sleep } from 'node:timers/promises';
import { toJobReference } from '../../contract/event.ts';
import { publicJob, toJobJson } from '../../contract/job.ts';
import { isTerminal } from '../../domain/jobs/job.ts';
import type { Workspaces } from '../../files/workspaces/workspaces.ts';
import type { Db } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertEvent } from '../../store/events/events.ts';
import { requestCancellation } from '../../store/jobs/job-queue.ts';
import { type JobRecord, updateStatus } from '../../store/jobs/jobs.ts';
import { freeSpace } from '../../store/ledger/ledger.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, requireSystem, type Systems } from '../scope.ts';
import { requireJob } from './find-job.ts';

export interface EndJobDeps {
  db: Db;
  systems: Systems;
  workspacesOf: ReadonlyMap<string, Workspaces>;
  now(): number;
  /** Called once a wish is durable, so that the lifecycle need not wait. */
  wake(hpc: string): void;
  /** How long a request may wait for a job to end. */
  patienceMs: number;
}

/** A job that its owner does not want any more, as JSON; `ended` is false while its system is still about it. */
export interface EndedJob {
  json: string;
  ended: boolean;
}

/**
 * Cancels a job that is not finished, and deletes the files of one that is. Repeating it is harmless. The wish to
 * cancel is durable when this returns, whether or not the job has ended by then.
 */
export async function endJob(
  deps: EndJobDeps,
  actor: Actor,
  place: Required<PathScope>,
  jobId: string,
): Promise<EndedJob> {
  const { db, systems } = deps;
  const job = await requireJob(db, systems, actor.userId, place, jobId);
  if (isTerminal(job.status.state)) {
    const note = { actor: job.owner, reason: `files of ${job.jobId} deleted` };
    return { json: await deleteFiles(deps, job, note), ended: true };
  }
  await requestCancellation(db, job.id, deps.now());
  deps.wake(place.hpc);
  return await whenEnded(deps, actor, place, jobId);
}

async function whenEnded(deps: EndJobDeps, actor: Actor, place: Required<PathScope>, jobId: string): Promise<EndedJob> {
  const words = requireSystem(deps.systems, place.hpc).stages;
  const deadline = deps.now() + deps.patienceMs;
  for (;;) {
    const job = await requireJob(deps.db, deps.systems, actor.userId, place, jobId);
    const ended = isTerminal(job.status.state);
    if (ended || deps.now() >= deadline) return { json: toJobJson(job, words), ended };
    await sleep(50);
  }
}

/**
 * Deletes the files of a finished job. First the books, then the files: after a crash in between the next start removes
 * what is left, and so does a repetition. Answers with the job as it is then.
 */
export async function deleteFiles(
  { db, systems, workspacesOf, now }: Pick<EndJobDeps, 'db' | 'systems' | 'workspacesOf' | 'now'>,
  job: JobRecord,
  { actor, reason }: { actor: string; reason: string },
): Promise<string> {
  const words = requireSystem(systems, job.project.hpc).stages;
  const { status } = job;
  if (status.state !== 'ended' && status.state !== 'deleted') return toJobJson(job, words);
  const next = { ...status, state: 'deleted' } as const;
  const shown = publicJob({ ...job, status: next }, words);
  const at = now();
  await inTransaction(db, async (tx) => {
    if (status.state === 'deleted' || !(await updateStatus(tx, job, next, shown))) return;
    await freeSpace(tx, job, { actor, reason, at });
    const data = { ...toJobReference(job), stage: shown.stage };
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: shown.json, kind: 'job.deleted', data, at });
  });
  await workspacesOf.get(job.project.hpc)?.remove(job.jobId);
  return shown.json;
}

import { setTimeout as sleep } from 'node:timers/promises';
import { jobReference } from '../contract/event.ts';
import { jobJson } from '../contract/job.ts';
import { isTerminal } from '../domain/job.ts';
import { stageOf } from '../domain/stage.ts';
import type { Workspaces } from '../files/workspaces.ts';
import { insertEvent } from '../store/events.ts';
import { requestCancellation } from '../store/job-queue.ts';
import { type JobRecord, updateStatus } from '../store/jobs.ts';
import { freeSpace } from '../store/ledger.ts';
import type { Db } from '../store/tables.ts';
import { inTransaction } from '../store/transaction.ts';
import type { Actor } from './actor.ts';
import { jobNamed } from './find-job.ts';
import { type Place, type Systems, systemNamed } from './places.ts';

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
export async function endJob(deps: EndJobDeps, actor: Actor, place: Required<Place>, jobId: string): Promise<EndedJob> {
  const { db, systems } = deps;
  const job = await jobNamed(db, systems, actor.userId, place, jobId);
  if (isTerminal(job.status.state)) return { json: await deleteFiles(deps, job), ended: true };
  await requestCancellation(db, job.id, deps.now());
  deps.wake(place.hpc);
  return await whenEnded(deps, actor, place, jobId);
}

async function whenEnded(deps: EndJobDeps, actor: Actor, place: Required<Place>, jobId: string): Promise<EndedJob> {
  const words = systemNamed(deps.systems, place.hpc).stages;
  const deadline = deps.now() + deps.patienceMs;
  for (;;) {
    const job = await jobNamed(deps.db, deps.systems, actor.userId, place, jobId);
    const ended = isTerminal(job.status.state);
    if (ended || deps.now() >= deadline) return { json: jobJson(job, words), ended };
    await sleep(50);
  }
}

/**
 * First the books, then the files: after a crash in between the next start removes what is left. A job that is deleted
 * already stays as it is.
 */
async function deleteFiles({ db, systems, workspacesOf, now }: EndJobDeps, job: JobRecord): Promise<string> {
  const words = systemNamed(systems, job.project.hpc).stages;
  if (job.status.state !== 'ended') return jobJson(job, words);
  const next = { ...job.status, state: 'deleted' } as const;
  const json = jobJson({ ...job, status: next }, words);
  const at = now();
  await inTransaction(db, async (tx) => {
    if (!(await updateStatus(tx, job, next, json))) return;
    await freeSpace(tx, job, { actor: job.owner, reason: `files of ${job.jobId} deleted`, at });
    const data = { ...jobReference(job), stage: stageOf(next, words) };
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: json, kind: 'job.deleted', data, at });
  });
  await workspacesOf.get(job.project.hpc)?.remove(job.jobId);
  return json;
}

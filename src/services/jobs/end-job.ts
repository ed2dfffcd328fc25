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
  workspacesByHpc: ReadonlyMap<string, Workspaces>;
  now(): number;
  /** Called when a cancellation is stored, so that the dispatcher and the canceller poll at once. */
  wakeDispatcher(hpc: string): void;
  cancelTimeoutMs: number;
}

/** `ended` is false while the system is still cancelling the job. */
export interface EndedJob {
  json: string;
  ended: boolean;
}

/**
 * Cancels an unfinished job, and deletes the files of a finished one. Repeating it is harmless. The request to cancel is
 * durable when this returns, whether or not the job has ended by then.
 */
export async function endJob(
  deps: EndJobDeps,
  actor: Actor,
  scope: Required<PathScope>,
  jobId: string,
): Promise<EndedJob> {
  const { db, systems } = deps;
  const job = await requireJob(db, systems, actor.userId, scope, jobId);
  if (isTerminal(job.status.state)) {
    const note = { actor: job.owner, reason: `files of ${job.jobId} deleted` };
    return { json: await deleteFiles(deps, job, note), ended: true };
  }
  await requestCancellation(db, job.id, deps.now());
  deps.wakeDispatcher(scope.hpc);
  return await waitForCancellation(deps, actor, scope, jobId);
}

async function waitForCancellation(
  deps: EndJobDeps,
  actor: Actor,
  scope: Required<PathScope>,
  jobId: string,
): Promise<EndedJob> {
  const stageNames = requireSystem(deps.systems, scope.hpc).stages;
  const deadline = deps.now() + deps.cancelTimeoutMs;
  for (;;) {
    const job = await requireJob(deps.db, deps.systems, actor.userId, scope, jobId);
    const ended = isTerminal(job.status.state);
    if (ended || deps.now() >= deadline) return { json: toJobJson(job, stageNames), ended };
    await sleep(50);
  }
}

/**
 * Deletes the files of a finished job and returns its public JSON. The database is changed first: after a crash in
 * between, the next start or a repeated request removes the files.
 */
export async function deleteFiles(
  { db, systems, workspacesByHpc, now }: Pick<EndJobDeps, 'db' | 'systems' | 'workspacesByHpc' | 'now'>,
  job: JobRecord,
  { actor, reason }: { actor: string; reason: string },
): Promise<string> {
  const stageNames = requireSystem(systems, job.project.hpc).stages;
  const { status } = job;
  if (status.state !== 'ended' && status.state !== 'deleted') return toJobJson(job, stageNames);
  const next = { ...status, state: 'deleted' } as const;
  const deletedJob = publicJob({ ...job, status: next }, stageNames);
  const at = now();
  await inTransaction(db, async (tx) => {
    if (status.state === 'deleted' || !(await updateStatus(tx, job, next, deletedJob))) return;
    await freeSpace(tx, job, { actor, reason, at });
    const data = { ...toJobReference(job), stage: deletedJob.stage };
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: deletedJob.json, kind: 'job.deleted', data, at });
  });
  await workspacesByHpc.get(job.project.hpc)?.remove(job.jobId);
  return deletedJob.json;
}

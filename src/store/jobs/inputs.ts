import { chunks } from '../../domain/chunks.ts';
import type { JobState } from '../../domain/jobs/job.ts';
import type { Db, Tx } from '../database/handle.ts';
import { dispatchableStates } from './job-queue.ts';

// Small zips of jobs that are not yet submitted to their engine. A zip is inserted in the transaction of its job, and
// deleted in the transaction that records the submission. Large zips are files in the spool.

/** Returns undefined for a job without a zip, with a zip in the spool, or already submitted to its engine. */
export async function findInput(db: Db, job: number): Promise<Buffer | undefined> {
  const row = await db.selectFrom('inputs').select('content').where('job', '=', job).executeTakeFirst();
  return row?.content;
}

export async function deleteInput(tx: Tx, job: number): Promise<void> {
  await tx.deleteFrom('inputs').where('job', '=', job).execute();
}

/** Returns the given jobs whose files are not needed: deleted jobs, jobs that ended before submission, unknown jobs. */
export async function listJobsWithUnneededFiles(db: Db, jobIds: readonly string[]): Promise<string[]> {
  const needed = new Set<string>();
  for (const chunk of chunks(jobIds)) {
    const rows = await db
      .selectFrom('jobs')
      .select('jobId')
      .where('jobId', 'in', chunk)
      .where('state', '<>', 'deleted')
      .where((eb) => eb.or([eb('state', '<>', 'ended'), eb('engineRef', 'is not', null)]))
      .execute();
    for (const row of rows) needed.add(row.jobId);
  }
  return jobIds.filter((jobId) => !needed.has(jobId));
}

/** Returns which of the given jobs exist, and which of them still need their zip. */
export async function findInputJobs(db: Db, jobIds: readonly string[]) {
  const existing = new Set<string>();
  const needingInput = new Set<string>();
  for (const chunk of chunks(jobIds)) {
    const rows = await db.selectFrom('jobs').select(['jobId', 'state']).where('jobId', 'in', chunk).execute();
    for (const { jobId, state } of rows) {
      existing.add(jobId);
      if (dispatchableStates.includes(state)) needingInput.add(jobId);
    }
  }
  return { existing, needingInput };
}

/** The jobs that need a zip of the spool: they have one, it is not in the database, and no engine has received it. */
export async function listJobsWithSpooledZip(db: Db): Promise<{ jobId: string; state: JobState }[]> {
  return await db
    .selectFrom('jobs')
    .leftJoin('inputs', 'inputs.job', 'jobs.id')
    .select(['jobId', 'state'])
    .where('state', 'in', dispatchableStates)
    .where('inputSha256', 'is not', null)
    .where('inputs.job', 'is', null)
    .orderBy('jobs.id')
    .execute();
}

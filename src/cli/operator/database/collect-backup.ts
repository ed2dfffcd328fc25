import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../../../domain/errors.ts';
import { msPerDay } from '../../../domain/units.ts';
import { copyDurably, linkZips, zipPath } from '../../../files/spool/copy-spool.ts';
import type { Spool } from '../../../files/spool/spool.ts';
import { openDatabase } from '../../../store/database/database.ts';
import type { Db } from '../../../store/database/handle.ts';
import { listJobsWithSpooledZip } from '../../../store/jobs/inputs.ts';
import { takeSnapshot } from '../../../store/maintenance/snapshot.ts';

const stagingPrefix = 'backup-';
const maxAttempts = 5;

/**
 * Writes a snapshot of the database, and the zips that its jobs need. Returns the ids of the jobs of these zips.
 *
 * The dispatcher removes a zip as soon as an engine has the job. So all zips get a second name before the snapshot, and
 * those that arrived meanwhile right after it. A job that was accepted and submitted in between has no zip: then the
 * snapshot is taken again.
 */
export async function collectBackup(
  db: Db,
  spool: Spool,
  { dataFolder, file, zipFolder }: { dataFolder: string; file: string; zipFolder: string },
): Promise<string[]> {
  await removeLeftovers(dataFolder);
  const staging = await mkdtemp(join(dataFolder, stagingPrefix));
  try {
    await mkdir(zipFolder, { recursive: true, mode: 0o700 });
    await spool.open();
    for (let attempt = 1; ; attempt++) {
      await rm(file, { force: true });
      await linkZips(spool, staging);
      await takeSnapshot(db, file);
      await linkZips(spool, staging);
      const { found, missing } = await findZips(file, staging);
      if (missing.length > 0 && attempt < maxAttempts) continue;
      requireNoneAccepted(missing);
      for (const { jobId } of found) await copyDurably(zipPath(staging, jobId), zipFolder, `${jobId}.zip`);
      return found.map(({ jobId }) => jobId);
    }
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

type WaitingJob = Awaited<ReturnType<typeof listJobsWithSpooledZip>>[number];

async function findZips(file: string, staging: string): Promise<{ found: WaitingJob[]; missing: WaitingJob[] }> {
  const snapshot = await openDatabase({ url: `sqlite:${file}` }, '.');
  try {
    const names = new Set(await readdir(staging));
    const isFound = ({ jobId }: WaitingJob) => names.has(`${jobId}.zip`);
    const jobs = await listJobsWithSpooledZip(snapshot);
    return { found: jobs.filter(isFound), missing: jobs.filter((job) => !isFound(job)) };
  } finally {
    await snapshot.destroy();
  }
}

/** A job that its system lost is submitted again without its zip: its workspace is complete. A job that waits has its zip. */
function requireNoneAccepted(missing: readonly WaitingJob[]): void {
  const accepted = missing.filter(({ state }) => state === 'accepted').map(({ jobId }) => jobId);
  if (accepted.length === 0) return;
  throw new BursarError(
    'conflict',
    `The spool has no zip of ${accepted.length} waiting jobs, such as ${accepted[0]}. If the data folder is the right one ` +
      '(BURSAR_DATA), try again.',
  );
}

/** Removes the second names of zips that a killed backup left: they keep the space of removed zips. */
async function removeLeftovers(dataFolder: string): Promise<void> {
  for (const name of (await readdir(dataFolder)).filter((name) => name.startsWith(stagingPrefix))) {
    const path = join(dataFolder, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > msPerDay) await rm(path, { recursive: true, force: true });
  }
}

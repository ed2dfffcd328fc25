import { appendFile, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { msPerDay } from '../../domain/units.ts';

/** Longer than a database backup is usually old when it is restored. */
const maxAgeMs = 30 * msPerDay;

/**
 * Remembers for a month how jobs ended that the engine has forgotten. A database that was restored from a backup still
 * waits for the jobs that ended after the backup: their ends are found here, and none of them runs again.
 *
 * One file for each day, with a line for each job. They are not synced: after a power failure the last lines may be missing,
 * which matters only if the database is restored as well.
 */
export function createEndedJobs(directory: string, now: () => number) {
  const nameOf = (time: number) => `${new Date(time).toISOString().slice(0, 10)}.jsonl`;
  let currentName = '';

  /** Removes old files when the first job of a day has ended. */
  async function startFile(name: string): Promise<void> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const oldestName = nameOf(now() - maxAgeMs);
    for (const old of (await readdir(directory)).filter((found) => found < oldestName)) await rm(join(directory, old));
    currentName = name;
  }

  return {
    async add(ends: ReadonlyMap<string, JobEnd>): Promise<void> {
      if (ends.size === 0) return;
      const name = nameOf(now());
      if (name !== currentName) await startFile(name);
      const lines = [...ends].map(([jobId, end]) => `${JSON.stringify({ jobId, end })}\n`);
      await appendFile(join(directory, name), lines.join(''), { mode: 0o600 });
    },

    /** Returns the ends of those jobs that are known to have ended. */
    async find(jobIds: readonly string[]): Promise<Map<string, JobEnd>> {
      if (jobIds.length === 0) return new Map();
      const wanted = new Set(jobIds);
      const found = new Map<string, JobEnd>();
      const names = await readdir(directory).catch((error) => {
        if (errnoCode(error) === 'ENOENT') return [];
        throw error;
      });
      for (const name of names) {
        for (const line of (await readFile(join(directory, name), 'utf8')).split('\n')) {
          const ended = parseLine(line);
          if (ended !== undefined && wanted.has(ended.jobId)) found.set(ended.jobId, ended.end);
        }
      }
      return found;
    },
  };
}

/** Returns undefined for a line that a crash has cut off. */
function parseLine(line: string): { jobId: string; end: JobEnd } | undefined {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

/** The current state of a job. Its system and project never change, and its row is never deleted. */
export interface ChangedJob {
  id: number;
  hpc: string;
  project: string;
  json: string;
}

export interface JobChanges {
  /** The version of the owner's jobs, as in a `JobPage`. */
  version: string;
  /** Jobs that were changed or inserted since the known version; undefined if there may be more than `maxChanges`. */
  jobs: ChangedJob[] | undefined;
}

/** Every change increments the version, so the difference of two versions limits the number of changed jobs. */
const maxChanges = 100;

/** Reads the version of a user's jobs, and the jobs that have changed since an earlier version, by one query. */
export async function listChangedJobs(db: Db, owner: string, knownVersion: string): Promise<JobChanges> {
  const known = Number(knownVersion);
  const max = known + maxChanges;
  const rows = await selectChanges(db, { owner, known, max });
  const version = rows[0]?.version ?? 0;
  // The version is smaller than the known one after the database was restored from a backup.
  if (version < known || version > max) return { version: String(version), jobs: undefined };
  return { version: String(version), jobs: rows.filter(isJob) };
}

type Row = { version: number } & { [Field in keyof ChangedJob]: ChangedJob[Field] | null };

const isJob = (row: Row): row is Row & ChangedJob => row.id !== null;

const selectChanges = prepareQuery((db, param: Param<{ owner: string; known: number; max: number }>) =>
  db
    .selectFrom('users')
    .leftJoin('jobs', (join) =>
      join
        .onRef('jobs.owner', '=', 'users.id')
        // No job has a greater version than its owner's `jobs_version`. So if too much has changed, no job is read.
        .on('jobs.version', '>', (eb) =>
          eb
            .case()
            .when('users.jobs_version', '<=', param('max'))
            .then(param('known'))
            .else(eb.ref('users.jobs_version'))
            .end(),
        ),
    )
    .select(['users.jobs_version as version', 'jobs.id', 'jobs.hpc', 'jobs.project_name as project'])
    .select('jobs.public_json as json')
    .where('users.id', '=', param('owner')),
);

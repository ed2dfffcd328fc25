import type { Db } from '../database/handle.ts';
import { prepared, type Value } from '../database/prepared.ts';

/** A job as it is now. What it shows may have changed; where it is never does, and it is never removed. */
export interface ChangedJob {
  id: number;
  hpc: string;
  project: string;
  json: string;
}

export interface JobChanges {
  /** The version of the owner's jobs, as in a `JobPage`. */
  version: string;
  /** Those that have changed or come since the version that is known; undefined when there may be too many of them. */
  jobs: ChangedJob[] | undefined;
}

/** Every change raises the version by one, so it also tells how many there can be. */
const mostChanges = 100;

/** The version of somebody's jobs and what has changed since another one, in one look. */
export async function listChangedJobs(db: Db, owner: string, knownVersion: string): Promise<JobChanges> {
  const known = Number(knownVersion);
  const rows = await changesSince(db, { owner, known, most: known + mostChanges });
  const version = rows[0]?.version ?? 0;
  // A version that has gone back is one of other books: these were restored.
  if (version < known || version > known + mostChanges) return { version: String(version), jobs: undefined };
  return { version: String(version), jobs: rows.filter(isJob) };
}

type Row = { version: number } & { [Field in keyof ChangedJob]: ChangedJob[Field] | null };

const isJob = (row: Row): row is Row & ChangedJob => row.id !== null;

const changesSince = prepared((db, value: Value<{ owner: string; known: number; most: number }>) =>
  db
    .selectFrom('users')
    .leftJoin('jobs', (join) =>
      join
        .onRef('jobs.owner', '=', 'users.id')
        // No version is greater than that of the owner: where too much has changed, nothing is read.
        .on('jobs.version', '>', (eb) =>
          eb
            .case()
            .when('users.jobs_version', '<=', value('most'))
            .then(value('known'))
            .else(eb.ref('users.jobs_version'))
            .end(),
        ),
    )
    .select(['users.jobs_version as version', 'jobs.id', 'jobs.hpc', 'jobs.project_name as project'])
    .select('jobs.public_json as json')
    .where('users.id', '=', value('owner')),
);

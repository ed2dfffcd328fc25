import { type Kysely, sql } from 'kysely';

// PostgreSQL compares each hold with each resolution for `not in`, if they are too many for its working memory.
const openHolds = 'select * from holds where not exists (select 1 from resolutions where hold_id = holds.id)';
const accountColumns = ['time_pool', 'time_cap', 'space_pool', 'space_cap'];

const statements = [
  // Counters of unfinished jobs, which limit new submissions. Counting the rows would cost more with every waiting job.
  'alter table users add column unfinished_jobs bigint not null default 0',
  `update users set unfinished_jobs = counted.jobs from
     (select owner, count(*) as jobs from jobs where state in ('accepted', 'submitting', 'queued', 'running')
      group by owner) as counted
     where counted.owner = users.id`,
  'alter table accounts add column open_holds bigint not null default 0',
  `update accounts set open_holds = counted.holds from
     (select account_id, count(*) as holds from
       (${accountColumns.map((column) => `select ${column} as account_id from (${openHolds}) as open_${column}`).join(' union all ')})
       as held group by account_id) as counted
     where counted.account_id = accounts.id`,

  // In the order in which the dispatcher takes the jobs of each user.
  'drop index jobs_unfinished',
  `create index jobs_unfinished on jobs (hpc, state, owner, due_at, id) where state in
     ('accepted', 'submitting', 'queued', 'running')`,
  // The dispatcher ends a cancelled job at once, before the other jobs of its owner.
  "update jobs set due_at = 0 where cancel_requested_at is not null and state in ('accepted', 'submitting')",
];

/** Counts the unfinished jobs of users and accounts, and lets the dispatcher take turns between users. */
export const unfinishedJobs = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};

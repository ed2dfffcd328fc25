import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Stores the used time of each user by project and month: summing up the entries of a million jobs takes seconds. */
export const monthlyUsage = ({ toMonth }: Pick<Dialect, 'toMonth'>) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      `create table monthly_usage (
         month text not null, project_id bigint not null references projects(id),
         user_id text not null references users(id), jobs bigint not null, time_seconds bigint not null,
         primary key (month, project_id, user_id))`,
      'create index monthly_usage_by_user on monthly_usage (user_id)',
      `insert into monthly_usage (month, project_id, user_id, jobs, time_seconds)
         select ${toMonth('entries.at')}, accounts.project_id, accounts.holder,
           sum(case when entries.kind = 'refund' then 0 else 1 end), sum(entries.posted + entries.overrun)
         from entries join accounts on accounts.id = entries.account_id
         where accounts.resource = 'time' and accounts.holder <> '' and entries.kind in ('charge', 'release', 'refund')
         group by 1, 2, 3`,
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
});

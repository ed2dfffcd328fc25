import { sql } from 'kysely';
import type { Db } from '../../src/store/database/handle.ts';

export interface BulkJobs {
  owner: string;
  hpc: string;
  project: string;
  count: number;
}

/**
 * Inserts many finished jobs directly, without holds: one in 100 has the stage RUNNING, one in 500 has failed, and there
 * are 50 titles. They were accepted a second apart.
 */
export async function storeManyJobs(db: Db, { owner, hpc, project, count }: BulkJobs): Promise<void> {
  const { id } = await db
    .selectFrom('projects')
    .select('id')
    .where('hpc', '=', hpc)
    .where('name', '=', project)
    .executeTakeFirstOrThrow();
  const { last } = await db
    .selectFrom('jobs')
    .select((eb) => eb.fn.coalesce(eb.fn.max('id'), eb.val(0)).as('last'))
    .executeTakeFirstOrThrow();
  const from = Number(last) + 1;
  const stage = sql`case when i % 100 = 0 then 'RUNNING' when i % 500 = 1 then 'FAILED' else 'SUCCESSFUL' end`;
  await sql`
    insert into jobs (id, job_id, owner, project_id, hpc, project_name, request, units, input_bytes, unpacked_bytes,
                      state, outcome, accepted_at, due_at, tries, public_json, title, stage,
                      failed, terminal, ended_at)
    with recursive n(i) as (select ${sql.lit(from)} union all select i + 1 from n where i < ${sql.lit(from + count - 1)})
    select i, 'MANY-' || i, ${owner}, ${id}, ${hpc}, ${project}, '{"nodes":1,"coresPerNode":2}', 1, 0, 0, 'ended', 'succeeded', i * 1000, 0, 0,
           '{"id":' || i || ',"job_id":"MANY-' || i || '","owner":"' || ${owner} || '","project":' || ${sql.lit(Number(id))}
             || ',"project_hpc":"' || upper(${hpc}) || '","project_name":"' || ${project} || '","title":"title ' || (i % 50)
             || '","runtime":1.0,"stage":"' || ${stage} || '","terminal_stage":true,"failed":false,'
             || '"init_date":"2026-01-31T12:00:00Z","end_date":"2026-01-31T12:00:00Z"}',
           'title ' || (i % 50), ${stage}, case when i % 500 = 1 then 1 else 0 end,
           case when i % 100 = 0 then 0 else 1 end, i * 1000
    from n`.execute(db);
  await db.backend.dialect.setLastId(db, 'jobs', from + count - 1);
  await db
    .updateTable('users')
    .set((eb) => ({ jobsVersion: eb('jobsVersion', '+', count) }))
    .where('id', '=', owner)
    .execute();
}

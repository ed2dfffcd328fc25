import { sql } from 'kysely';
import type { Tx } from '../../src/store/database/handle.ts';
import { type JobRange, usage } from './jobs.ts';

/** Older events have expired: the default of `eventRetentionDays`. */
const keepMs = 90 * 24 * 3600 * 1000;

/** Inserts the four events of each ended job. */
export async function insertJobEvents(tx: Tx, { first, last }: JobRange, now: number): Promise<void> {
  const eventsPerJob = 4;
  const isExpired = sql`case when accepted_at < ${sql.lit(now - keepMs)} then 1 else 0 end`;
  await sql`
    insert into events (user_id, seq, job, job_json, kind, data, at, expired)
    with ended as materialized (
      select jobs.*, event_seq, ${isExpired} as is_expired, row_number() over (partition by owner order by jobs.id) as n
      from jobs join users on users.id = owner where jobs.id between ${first} and ${last}),
    steps (step, kind) as (values (1, 'job.accepted'), (2, 'job.queued'), (3, 'job.running'), (4, 'job.ended'))
    select owner, event_seq + (n - 1) * ${sql.lit(eventsPerJob)} + step, id,
      case is_expired when 1 then null else public_json end, kind,
      '{"hpc":"' || hpc || '","project_name":"' || project_name || '","job_id":"' || job_id || '","stage":"' || stage
        || '","engine_id":"' || engine_ref || '","scheduler_message":null' || case step when 4 then ',"outcome":"' || outcome
        || '","reason":"' || reason || '","exit_code":' || exit_code || ',"elapsed_seconds":' || elapsed_seconds
        || ',"charged_seconds":' || (${sql.lit(usage.units)} * elapsed_seconds)
        || ',"space_bytes":' || ${sql.lit(usage.usedBytes)} else '' end || '}',
      case step when 4 then ended_at else accepted_at end, is_expired
    from ended cross join steps order by id, step`.execute(tx);
  await sql`
    update users set event_seq = event_seq + ${sql.lit(eventsPerJob)} * counted.jobs,
      events_expired = case counted.expired when 0 then events_expired
        else event_seq + ${sql.lit(eventsPerJob)} * counted.expired end
    from (select owner, count(*) as jobs, sum(${isExpired}) as expired
      from jobs where id between ${first} and ${last} group by owner) as counted
    where counted.owner = users.id`.execute(tx);
}

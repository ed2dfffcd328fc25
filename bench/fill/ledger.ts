import { sql } from 'kysely';
import type { Tx } from '../../src/store/database/handle.ts';
import { poolHolder } from '../../src/store/ledger/accounts.ts';
import { type JobRange, usage } from './jobs.ts';

const entriesPerJob = 8;
const usedSeconds = usage.units * usage.elapsedSeconds;

/** Inserts the holds of ended jobs, their resolutions, and the eight entries of each job, and adds up the use. */
export async function insertSettledHolds(tx: Tx, jobs: JobRange): Promise<void> {
  await insertHolds(tx, jobs);
  await insertEntries(tx, jobs);
  await postUsage(tx, jobs);
  await addMonthlyUsage(tx, jobs);
}

const accountsOf = (resource: 'time' | 'space') => sql`
  select pool.project_id, cap.holder, pool.id as pool, cap.id as cap from accounts as pool join accounts as cap
    on cap.project_id = pool.project_id and cap.period_id = pool.period_id and cap.resource = pool.resource
  where pool.holder = ${sql.lit(poolHolder)} and cap.holder <> ${sql.lit(poolHolder)} and pool.resource = ${sql.lit(resource)}
    and (pool.period_id = 0 or pool.period_id = (select max(id) from periods where periods.project_id = pool.project_id))`;

async function insertHolds(tx: Tx, { first, last }: JobRange): Promise<void> {
  await sql`
    insert into holds (job, time_pool, time_cap, space_pool, space_cap, time_seconds, space_bytes, created_at)
    with time_accounts as materialized (${accountsOf('time')}), space_accounts as materialized (${accountsOf('space')})
    select jobs.id, t.pool, t.cap, s.pool, s.cap, ${sql.lit(usage.heldSeconds)}, ${sql.lit(usage.heldBytes)}, accepted_at
    from jobs
      join time_accounts as t on t.project_id = jobs.project_id and t.holder = jobs.owner
      join space_accounts as s on s.project_id = jobs.project_id and s.holder = jobs.owner
    where jobs.id between ${first} and ${last} order by jobs.id`.execute(tx);
  await sql`
    insert into resolutions (hold_id, kind, time_seconds, space_bytes, rule, at)
    select holds.id, 'settled', ${sql.lit(usedSeconds)}, ${sql.lit(usage.usedBytes)}, 'used: ' || outcome, ended_at
    from holds join jobs on jobs.id = holds.job where holds.job between ${first} and ${last}`.execute(tx);
}

/** Each job reserves and is charged before the next one, so that the available amounts follow from the number of jobs. */
async function insertEntries(tx: Tx, { first, last }: JobRange): Promise<void> {
  const { dialect } = tx.backend;
  const firstEntry = (await dialect.lastId(tx, 'entries')) + 1;
  const amount = (time: number, space: number) =>
    sql`case movements.resource when 'time' then ${sql.lit(time)} else ${sql.lit(space)} end`;
  const held = amount(usage.heldSeconds, usage.heldBytes);
  const used = amount(usedSeconds, usage.usedBytes);
  await sql`
    insert into entries (id, account_id, kind, granted, held, posted, overrun, available_after, job, actor, reason, at)
    with settled as materialized (
      select holds.*, owner, outcome, accepted_at, ended_at,
        row_number() over (partition by project_id order by jobs.id) as pool_jobs,
        row_number() over (partition by project_id, owner order by jobs.id) as cap_jobs
      from holds join jobs on jobs.id = holds.job where holds.job between ${first} and ${last}),
    steps (step, resource, is_cap, is_charge) as (values (0, 'time', 0, 0), (1, 'time', 1, 0), (2, 'space', 0, 0),
      (3, 'space', 1, 0), (4, 'time', 0, 1), (5, 'time', 1, 1), (6, 'space', 0, 1), (7, 'space', 1, 1)),
    movements as materialized (
      select settled.*, step, resource, is_charge, case is_cap when 0 then pool_jobs else cap_jobs end as jobs_before,
        case resource when 'time' then case is_cap when 0 then time_pool else time_cap end
          else case is_cap when 0 then space_pool else space_cap end end as account
      from settled cross join steps)
    select ${sql.lit(firstEntry)} + (job - ${sql.lit(first)}) * ${sql.lit(entriesPerJob)} + step, account,
      case is_charge when 0 then 'reserve' else 'charge' end, 0,
      case is_charge when 0 then ${held} else -(${held}) end, case is_charge when 0 then 0 else ${used} end, 0,
      accounts.granted - accounts.held - accounts.posted - accounts.overrun - (jobs_before - 1) * (${used})
        - case is_charge when 0 then ${held} else ${used} end,
      job, case is_charge when 0 then owner else 'bursar' end, case is_charge when 0 then '' else 'used: ' || outcome end,
      case is_charge when 0 then accepted_at else ended_at end
    from movements join accounts on accounts.id = account order by job, step`.execute(tx);
  await dialect.setLastId(tx, 'entries', firstEntry + (last - first + 1) * entriesPerJob - 1);
}

/** Updates the balances once for all jobs. */
async function postUsage(tx: Tx, { first, last }: JobRange): Promise<void> {
  const columns = ['time_pool', 'time_cap', 'space_pool', 'space_cap'];
  const accounts = columns.map(
    (column) => sql`select ${sql.ref(column)} as account from holds where job between ${first} and ${last}`,
  );
  await sql`
    update accounts set version = version + 2 * counted.jobs, posted = posted + counted.jobs *
      case resource when 'time' then ${sql.lit(usedSeconds)} else ${sql.lit(usage.usedBytes)} end
    from (select account, count(*) as jobs from (${sql.join(accounts, sql` union all `)}) as held group by account) as counted
    where counted.account = accounts.id`.execute(tx);
}

const monthOfEnd = {
  sqlite: sql`strftime('%Y-%m', ended_at / 1000, 'unixepoch')`,
  postgres: sql`to_char(to_timestamp(ended_at / 1000) at time zone 'UTC', 'YYYY-MM')`,
};

async function addMonthlyUsage(tx: Tx, { first, last }: JobRange): Promise<void> {
  await sql`
    insert into monthly_usage (month, project_id, user_id, jobs, time_seconds)
    select ${monthOfEnd[tx.backend.dialect.name]}, project_id, owner, count(*), count(*) * ${sql.lit(usedSeconds)}
    from jobs where id between ${first} and ${last} group by 1, 2, 3
    on conflict (month, project_id, user_id) do update set jobs = monthly_usage.jobs + excluded.jobs,
      time_seconds = monthly_usage.time_seconds + excluded.time_seconds`.execute(tx);
}

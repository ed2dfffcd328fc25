import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { isUnfinished } from '../jobs/job-queue.ts';
import { poolHolder } from './accounts.ts';

export interface LedgerVerification {
  balanced: boolean;
  /** The numbers of rows that were checked. */
  accounts: number;
  entries: number;
  /** Messages about violated invariants. */
  problems: string[];
}

/** Checks the invariants of the ledger. Each check is one pass over a table: a million entries take seconds. */
export async function verifyLedger(db: Db): Promise<LedgerVerification> {
  const checks = [
    checkBalancesEqualEntries,
    checkRunningBalances,
    checkHeldEqualsOpenHolds,
    checkUnfinishedJobCounts,
    checkPoolsEqualCaps,
    checkPoolsCoverCaps,
    checkEndedJobsAreSettled,
    checkUseIsGranted,
  ];
  const problems: string[] = [];
  for (const check of checks) problems.push(...(await check(db)));
  const accounts = await countRows(db, 'accounts');
  const entries = await countRows(db, 'entries');
  return { balanced: problems.length === 0, accounts, entries, problems };
}

async function countRows(db: Db, table: 'accounts' | 'entries'): Promise<number> {
  const { rows } = await db
    .selectFrom(table)
    .select((eb) => eb.fn.countAll().as('rows'))
    .executeTakeFirstOrThrow();
  return Number(rows);
}

async function checkBalancesEqualEntries(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number }>`
    select a.id from accounts a left join
      (select account_id, sum(granted) granted, sum(held) held, sum(posted) posted, sum(overrun) overrun
       from entries group by account_id) e on e.account_id = a.id
    where a.granted <> coalesce(e.granted, 0) or a.held <> coalesce(e.held, 0)
       or a.posted <> coalesce(e.posted, 0) or a.overrun <> coalesce(e.overrun, 0)
    order by a.id`.execute(db);
  return rows.map(({ id }) => `account ${id}: its balance is not the sum of its entries`);
}

/** The available amount after each entry is the one after the previous entry plus the change. */
async function checkRunningBalances(db: Db): Promise<string[]> {
  const { rows } = await sql<{ account_id: number; id: number }>`
    select account_id, min(id) as id from (
      select id, account_id, available_after, granted - held - posted - overrun as change,
        lag(available_after, 1, 0) over (partition by account_id order by id) as before
      from entries) running
    where available_after <> before + change group by account_id order by account_id`.execute(db);
  return rows.map(
    ({ account_id, id }) =>
      `account ${account_id}: the available amount of entry ${id} does not follow from the entry before it`,
  );
}

async function checkHeldEqualsOpenHolds(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number; held: number; open: number; open_holds: number; holds: number }>`
    with open_holds as (
      select * from holds where not exists (select 1 from resolutions where hold_id = holds.id)),
    held_amounts as (
      select time_pool account_id, time_seconds amount from open_holds union all
      select time_cap, time_seconds from open_holds union all
      select space_pool, space_bytes from open_holds union all
      select space_cap, space_bytes from open_holds)
    select a.id, a.held, coalesce(s.amount, 0) as open, a.open_holds, coalesce(s.holds, 0) as holds
    from accounts a left join
      (select account_id, sum(amount) amount, count(*) holds from held_amounts group by account_id) s
      on s.account_id = a.id
    where a.held <> coalesce(s.amount, 0) or a.open_holds <> coalesce(s.holds, 0) order by a.id`.execute(db);
  return rows.map(({ id, held, open, open_holds, holds }) =>
    held === Number(open)
      ? `account ${id}: it counts ${open_holds} open holds, but has ${holds}`
      : `account ${id}: its held amount is ${held}, but its open holds sum up to ${open}`,
  );
}

/** The counters limit submissions, so a wrong one would reject jobs for ever, or never. */
async function checkUnfinishedJobCounts(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: string; counted: number; jobs: number }>`
    select u.id, u.unfinished_jobs as counted, coalesce(j.jobs, 0) as jobs from users u left join
      (select owner, count(*) jobs from jobs where ${isUnfinished} group by owner) j on j.owner = u.id
    where u.unfinished_jobs <> coalesce(j.jobs, 0) order by u.id`.execute(db);
  return rows.map(({ id, counted, jobs }) => `user ${id}: counts ${counted} unfinished jobs, but has ${jobs}`);
}

async function checkPoolsEqualCaps(db: Db): Promise<string[]> {
  const { rows } = await sql<{ project_id: number; resource: string }>`
    select project_id, resource from accounts group by project_id, resource, period_id
    having sum(case when holder = ${poolHolder} then posted + overrun else 0 end)
        <> sum(case when holder = ${poolHolder} then 0 else posted + overrun end)
        or sum(case when holder = ${poolHolder} then held else 0 end)
        <> sum(case when holder = ${poolHolder} then 0 else held end)`.execute(db);
  return rows.map((row) => `project ${row.project_id}: the pool's use of ${row.resource} is not the sum of its caps`);
}

async function checkPoolsCoverCaps(db: Db): Promise<string[]> {
  const { rows } = await sql<{ project_id: number; resource: string }>`
    select project_id, resource from accounts group by project_id, resource, period_id
    having sum(case when holder = ${poolHolder} then granted else 0 end)
         < sum(case when holder = ${poolHolder} then 0 else granted end)`.execute(db);
  return rows.map((row) => `project ${row.project_id}: its caps are granted more ${row.resource} than its pool`);
}

async function checkEndedJobsAreSettled(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number; state: string }>`
    select j.id, j.state from jobs j
      left join holds h on h.job = j.id and h.attempt = j.attempt
      left join resolutions r on r.hold_id = h.id
    where h.id is null or (j.state in ('ended', 'deleted')) <> (r.hold_id is not null) order by j.id`.execute(db);
  return rows.map(
    ({ id, state }) =>
      `job ${id}: its state is ${state}, but its hold is missing, or its settlement does not match the state`,
  );
}

/** Posted and held amounts never exceed the grant. Use beyond the grant is recorded as overrun. */
async function checkUseIsGranted(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number }>`
    select id from accounts where posted + held > granted order by id`.execute(db);
  return rows.map(({ id }) => `account ${id}: more is posted and held than granted`);
}

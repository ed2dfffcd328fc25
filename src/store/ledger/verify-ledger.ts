import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { poolHolder } from './accounts.ts';

export interface LedgerVerification {
  balanced: boolean;
  /** How much there was to add up. */
  accounts: number;
  entries: number;
  /** In words, what does not add up. */
  problems: string[];
}

/**
 * Recomputes the invariants of the ledger from its entries, and tells what does not add up. Each check is one pass over
 * a table, so a million entries take seconds.
 */
export async function verifyLedger(db: Db): Promise<LedgerVerification> {
  const checks = [
    figuresEqualEntries,
    balancesFollowEntries,
    heldEqualsOpenHolds,
    poolsEqualCaps,
    poolsCoverCaps,
    endedJobsAreSettled,
    useIsCovered,
  ];
  const problems: string[] = [];
  for (const check of checks) problems.push(...(await check(db)));
  const accounts = await count(db, 'accounts');
  const entries = await count(db, 'entries');
  return { balanced: problems.length === 0, accounts, entries, problems };
}

async function count(db: Db, table: 'accounts' | 'entries'): Promise<number> {
  const { rows } = await db
    .selectFrom(table)
    .select((eb) => eb.fn.countAll().as('rows'))
    .executeTakeFirstOrThrow();
  return Number(rows);
}

async function figuresEqualEntries(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number }>`
    select a.id from accounts a left join
      (select account_id, sum(granted) granted, sum(held) held, sum(posted) posted, sum(overrun) overrun
       from entries group by account_id) e on e.account_id = a.id
    where a.granted <> coalesce(e.granted, 0) or a.held <> coalesce(e.held, 0)
       or a.posted <> coalesce(e.posted, 0) or a.overrun <> coalesce(e.overrun, 0)
    order by a.id`.execute(db);
  return rows.map(({ id }) => `account ${id}: its figures are not the sum of its entries`);
}

/** The balance that each entry tells of is the one before it, moved by the entry. */
async function balancesFollowEntries(db: Db): Promise<string[]> {
  const { rows } = await sql<{ account_id: number; id: number }>`
    select account_id, min(id) as id from (
      select id, account_id, available_after, granted - held - posted - overrun as change,
        lag(available_after, 1, 0) over (partition by account_id order by id) as before
      from entries) moved
    where available_after <> before + change group by account_id order by account_id`.execute(db);
  return rows.map(({ account_id, id }) => `account ${account_id}: its balance does not follow from entry ${id}`);
}

async function heldEqualsOpenHolds(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number; held: number; open: number }>`
    with open_holds as (select * from holds where id not in (select hold_id from resolutions)),
    sides as (
      select time_pool account_id, time_seconds amount from open_holds union all
      select time_cap, time_seconds from open_holds union all
      select space_pool, space_bytes from open_holds union all
      select space_cap, space_bytes from open_holds)
    select a.id, a.held, coalesce(s.amount, 0) as open from accounts a left join
      (select account_id, sum(amount) amount from sides group by account_id) s on s.account_id = a.id
    where a.held <> coalesce(s.amount, 0) order by a.id`.execute(db);
  return rows.map(({ id, held, open }) => `account ${id}: holds ${held}, but its open holds are ${open}`);
}

async function poolsEqualCaps(db: Db): Promise<string[]> {
  const { rows } = await sql<{ project_id: number; resource: string }>`
    select project_id, resource from accounts group by project_id, resource, period_id
    having sum(case when holder = ${poolHolder} then posted + overrun else 0 end)
        <> sum(case when holder = ${poolHolder} then 0 else posted + overrun end)
        or sum(case when holder = ${poolHolder} then held else 0 end)
        <> sum(case when holder = ${poolHolder} then 0 else held end)`.execute(db);
  return rows.map((row) => `project ${row.project_id}: the pool's use of ${row.resource} is not the sum of its caps`);
}

async function poolsCoverCaps(db: Db): Promise<string[]> {
  const { rows } = await sql<{ project_id: number; resource: string }>`
    select project_id, resource from accounts group by project_id, resource, period_id
    having sum(case when holder = ${poolHolder} then granted else 0 end)
         < sum(case when holder = ${poolHolder} then 0 else granted end)`.execute(db);
  return rows.map((row) => `project ${row.project_id}: its caps promise more ${row.resource} than the pool has`);
}

async function endedJobsAreSettled(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number; state: string }>`
    select j.id, j.state from jobs j
      left join holds h on h.job = j.id and h.attempt = j.attempt
      left join resolutions r on r.hold_id = h.id
    where h.id is null or (j.state in ('ended', 'deleted')) <> (r.hold_id is not null) order by j.id`.execute(db);
  return rows.map(({ id, state }) => `job ${id}: it is ${state}, and its hold does not fit that`);
}

/** Nothing is posted or held beyond what was granted; use beyond it stands as overrun. */
async function useIsCovered(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number }>`
    select id from accounts where posted + held > granted order by id`.execute(db);
  return rows.map(({ id }) => `account ${id}: more is posted and held than granted`);
}

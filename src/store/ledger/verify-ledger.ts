import { sql } from 'kysely';
import type { JobState } from '../../domain/jobs/job.ts';
import type { Db } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';
import { inSnapshot } from '../database/transaction.ts';
import { isUnfinished } from '../jobs/job-queue.ts';
import { poolHolder } from './accounts.ts';
import { verifyEntries } from './verify-entries.ts';

export interface LedgerVerification {
  balanced: boolean;
  /** The numbers of rows that were checked. */
  accounts: number;
  entries: number;
  /** Messages about violated invariants. */
  problems: string[];
}

/** Checks the invariants of the ledger as of one time. Each table is read once: a million jobs take seconds. */
export async function verifyLedger(db: Db): Promise<LedgerVerification> {
  return await inSnapshot(db, async (snapshot) => {
    const accounts = await snapshot.selectFrom('accounts').selectAll().orderBy('id').execute();
    const openHolds = await listOpenHolds(snapshot);
    const { entries, problems: wrongSums } = await verifyEntries(snapshot, accounts);
    const problems = [
      ...wrongSums,
      ...checkHeldEqualsOpenHolds(accounts, openHolds),
      ...(await checkUnfinishedJobCounts(snapshot)),
      ...(await comparePoolsWithCaps(snapshot)),
      ...(await checkEndedJobsAreSettled(snapshot)),
      ...(await checkUseIsGranted(snapshot)),
    ];
    return { balanced: problems.length === 0, accounts: accounts.length, entries, problems };
  });
}

/** There are as many as unfinished jobs. */
async function listOpenHolds(db: Db): Promise<Row<'holds'>[]> {
  return await db
    .selectFrom('holds')
    .selectAll()
    .where(sql<boolean>`not exists (select hold_id from resolutions where hold_id = holds.id)`)
    .execute();
}

function checkHeldEqualsOpenHolds(accounts: readonly Row<'accounts'>[], openHolds: readonly Row<'holds'>[]) {
  const sums = new Map<number, { amount: number; holds: number }>();
  for (const hold of openHolds) {
    const { timePool, timeCap, spacePool, spaceCap, timeSeconds, spaceBytes } = hold;
    for (const [accountIds, amount] of [
      [[timePool, timeCap], timeSeconds],
      [[spacePool, spaceCap], spaceBytes],
    ] as const)
      for (const id of accountIds) {
        const sum = sums.get(id) ?? { amount: 0, holds: 0 };
        sums.set(id, { amount: sum.amount + amount, holds: sum.holds + 1 });
      }
  }
  return accounts.flatMap(({ id, held, openHolds }) => {
    const { amount, holds } = sums.get(id) ?? { amount: 0, holds: 0 };
    if (held !== amount) return [`account ${id}: its held amount is ${held}, but its open holds sum up to ${amount}`];
    return openHolds === holds ? [] : [`account ${id}: it counts ${openHolds} open holds, but has ${holds}`];
  });
}

/** The counters limit submissions, so a wrong one would reject jobs for ever, or never. */
async function checkUnfinishedJobCounts(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: string; counted: number; jobs: number }>`
    select u.id, u.unfinished_jobs as counted, coalesce(j.jobs, 0) as jobs from users u left join
      (select owner, count(*) jobs from jobs where ${isUnfinished} group by owner) j on j.owner = u.id
    where u.unfinished_jobs <> coalesce(j.jobs, 0) order by u.id`.execute(db);
  return rows.map(({ id, counted, jobs }) => `user ${id}: counts ${counted} unfinished jobs, but has ${jobs}`);
}

/** The use of a pool is that of its caps, and its grant covers theirs. */
async function comparePoolsWithCaps(db: Db): Promise<string[]> {
  const poolLessCaps = (amount: string) =>
    sql`sum(case when holder = ${poolHolder} then ${sql.raw(amount)} else -(${sql.raw(amount)}) end)`;
  const { rows } = await sql<{ projectId: number; resource: string; used: number; held: number; granted: number }>`
    select project_id, resource, ${poolLessCaps('posted + overrun')} as used, ${poolLessCaps('held')} as held,
      ${poolLessCaps('granted')} as granted
    from accounts group by project_id, resource, period_id`.execute(db);
  return rows.flatMap(({ projectId, resource, used, held, granted }) => [
    ...(used === 0 && held === 0
      ? []
      : [`project ${projectId}: the pool's use of ${resource} is not the sum of its caps`]),
    ...(granted >= 0 ? [] : [`project ${projectId}: its caps are granted more ${resource} than its pool`]),
  ]);
}

const states: JobState[] = ['accepted', 'submitting', 'queued', 'running', 'ended', 'deleted'];

/** Every job has a state and a hold. The hold of a job is resolved as soon as the job has ended. */
async function checkEndedJobsAreSettled(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: number; state: string }>`
    select jobs.id, state from jobs
    left join holds on holds.job = jobs.id left join resolutions on resolutions.hold_id = holds.id
    where holds.id is null or state not in (${sql.join(states)})
      or (case when ${isUnfinished} then 1 else 0 end) = (case when resolutions.hold_id is null then 0 else 1 end)
    order by jobs.id`.execute(db);
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

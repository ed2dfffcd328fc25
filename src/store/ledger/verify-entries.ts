import { sql } from 'kysely';
import { availableBalance, zeroMovement } from '../../domain/accounting/charge.ts';
import type { Db } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';
import { poolHolder } from './accounts.ts';
import { toMonth } from './monthly-usage.ts';

const amounts = ['granted', 'held', 'posted', 'overrun'] as const;

/** By month, project and user: the number of jobs that ended, and their used seconds. */
type Usage = Map<string, { jobs: number; seconds: number }>;

/**
 * Compares the accounts and the monthly usage with the sums of the entries. All entries are read once, in order, and added
 * up here: the window functions of SQLite take longer.
 */
export async function verifyEntries(
  db: Db,
  accounts: readonly Row<'accounts'>[],
): Promise<{ entries: number; problems: string[] }> {
  const sums = new Map(accounts.map((account) => [account.id, { account, ...zeroMovement }]));
  const usage: Usage = new Map();
  const brokenEntries = new Map<number, number>();
  const problems: string[] = [];
  let count = 0;
  for await (const entries of readEntries(db)) {
    for (const entry of entries) {
      const sum = sums.get(entry.accountId);
      if (sum === undefined) {
        problems.push(`entry ${entry.id}: there is no account ${entry.accountId}`);
        continue;
      }
      for (const amount of amounts) sum[amount] += entry[amount];
      const isBroken = availableBalance(sum) !== entry.availableAfter;
      if (isBroken && !brokenEntries.has(entry.accountId)) brokenEntries.set(entry.accountId, entry.id);
      addUsage(usage, sum.account, entry);
    }
    count += entries.length;
  }
  const wrong = [...sums.values()].filter(({ account, ...sum }) => amounts.some((name) => account[name] !== sum[name]));
  problems.push(...wrong.map(({ account }) => `account ${account.id}: its balance is not the sum of its entries`));
  for (const [id, entry] of brokenEntries)
    problems.push(`account ${id}: the available amount of entry ${entry} does not follow from the entry before it`);
  return { entries: count, problems: [...problems, ...(await findWrongUsage(db, usage))] };
}

const batchSize = 5000;

/** The number of jobs that an entry about used time counts; null for other entries. */
const usageJobs = sql<number | null>`case kind when 'charge' then 1 when 'release' then 1 when 'refund' then 0 end`;
const columns = ['id', 'accountId', ...amounts, 'availableAfter', 'at'] as const;

type Entry = Pick<Row<'entries'>, (typeof columns)[number]> & { jobs: number | null };

/** On PostgreSQL too, the ids of an account are in the order of its entries, because they are inserted under its lock. */
async function* readEntries(db: Db): AsyncGenerator<Entry[]> {
  const query = db.selectFrom('entries').select(columns).select(usageJobs.as('jobs')).orderBy('id').limit(batchSize);
  for (let last = 0; ; ) {
    const entries = await query.where('id', '>', last).execute();
    yield entries;
    if (entries.length < batchSize) return;
    last = entries.at(-1)?.id ?? last;
  }
}

function addUsage(usage: Usage, { resource, holder, projectId }: Row<'accounts'>, entry: Entry): void {
  if (entry.jobs === null || resource !== 'time' || holder === poolHolder) return;
  const key = usageKey(toMonth(entry.at), projectId, holder);
  const used = usage.get(key) ?? { jobs: 0, seconds: 0 };
  usage.set(key, { jobs: used.jobs + entry.jobs, seconds: used.seconds + entry.posted + entry.overrun });
}

const usageKey = (month: string, projectId: number, userId: string) =>
  `user ${userId}: the usage of project ${projectId} in ${month} is not the sum of its entries`;

/** The keys are the problems to report. */
async function findWrongUsage(db: Db, usage: Usage): Promise<string[]> {
  const problems: string[] = [];
  for (const row of await db.selectFrom('monthlyUsage').selectAll().execute()) {
    const key = usageKey(row.month, row.projectId, row.userId);
    const used = usage.get(key);
    usage.delete(key);
    if (row.jobs !== used?.jobs || row.timeSeconds !== used.seconds) problems.push(key);
  }
  return [...problems, ...usage.keys()].sort();
}

import { type Selectable, sql } from 'kysely';
import { availableBalance, type Movement, zeroMovement } from '../../domain/accounting/settlement.ts';
import type { Db } from '../database/handle.ts';
import type { Resource, Tables } from '../database/tables.ts';
import { poolHolder } from './accounts.ts';
import { toMonth } from './monthly-usage.ts';

export interface StoredAccount extends Movement {
  id: number;
  projectId: number;
  holder: string;
  resource: Resource;
}

/** The sums of the entries of an account. */
interface EntrySums extends Movement {
  account: StoredAccount;
  /** The first entry whose available amount does not follow from the entry before it. */
  brokenEntry: number | undefined;
}

/** By month, project and user: the number of jobs that ended, and their used seconds. */
type Usage = Map<string, { jobs: number; seconds: number }>;

/**
 * Compares the accounts and the monthly usage with the sums of the entries. All entries are read once, in order, and added
 * up here: the window functions of SQLite take longer.
 */
export async function verifyEntries(
  db: Db,
  accounts: readonly StoredAccount[],
): Promise<{ entries: number; problems: string[] }> {
  const sums = new Map(
    accounts.map((account) => [account.id, { ...zeroMovement, account, brokenEntry: undefined } as EntrySums]),
  );
  const usage: Usage = new Map();
  const withoutAccount: string[] = [];
  let count = 0;
  for await (const entries of readEntries(db)) {
    for (const entry of entries) {
      const sum = sums.get(entry.accountId);
      if (sum === undefined) withoutAccount.push(`entry ${entry.id}: there is no account ${entry.accountId}`);
      else addEntry(sum, usage, entry);
    }
    count += entries.length;
  }
  const wrongSums = [...findWrongBalances([...sums.values()]), ...(await findWrongUsage(db, usage))];
  return { entries: count, problems: [...withoutAccount, ...wrongSums] };
}

const batchSize = 5000;

/** The number of jobs that an entry about used time counts; null for other entries. */
const usageJobs = sql<number | null>`case kind when 'charge' then 1 when 'release' then 1 when 'refund' then 0 end`;
const columns = ['id', 'accountId', 'granted', 'held', 'posted', 'overrun', 'availableAfter', 'at'] as const;

type Entry = Pick<Selectable<Tables['entries']>, (typeof columns)[number]> & { jobs: number | null };

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

function addEntry(sum: EntrySums, usage: Usage, entry: Entry): void {
  sum.granted += entry.granted;
  sum.held += entry.held;
  sum.posted += entry.posted;
  sum.overrun += entry.overrun;
  if (availableBalance(sum) !== entry.availableAfter) sum.brokenEntry ??= entry.id;
  const { account } = sum;
  if (entry.jobs === null || account.resource !== 'time' || account.holder === poolHolder) return;
  const key = usageKey(toMonth(entry.at), account.projectId, account.holder);
  const used = usage.get(key) ?? { jobs: 0, seconds: 0 };
  used.jobs += entry.jobs;
  used.seconds += entry.posted + entry.overrun;
  usage.set(key, used);
}

const usageKey = (month: string, projectId: number, userId: string) => `${month} ${projectId} ${userId}`;

function findWrongBalances(sums: readonly EntrySums[]): string[] {
  const wrong = sums.filter(
    ({ account, ...sum }) =>
      account.granted !== sum.granted ||
      account.held !== sum.held ||
      account.posted !== sum.posted ||
      account.overrun !== sum.overrun,
  );
  return [
    ...wrong.map(({ account }) => `account ${account.id}: its balance is not the sum of its entries`),
    ...sums.flatMap(({ account, brokenEntry }) =>
      brokenEntry === undefined
        ? []
        : [
            `account ${account.id}: the available amount of entry ${brokenEntry} does not follow from the entry before it`,
          ],
    ),
  ];
}

async function findWrongUsage(db: Db, usage: Usage): Promise<string[]> {
  const problems: string[] = [];
  const describe = (month: string, projectId: number | string, userId: string) =>
    `user ${userId}: the usage of project ${projectId} in ${month} is not the sum of its entries`;
  for (const row of await db.selectFrom('monthlyUsage').selectAll().execute()) {
    const key = usageKey(row.month, row.projectId, row.userId);
    const used = usage.get(key);
    usage.delete(key);
    if (row.jobs !== used?.jobs || row.timeSeconds !== used.seconds)
      problems.push(describe(row.month, row.projectId, row.userId));
  }
  for (const key of usage.keys()) {
    const [month = '', projectId = '', userId = ''] = key.split(' ');
    problems.push(describe(month, projectId, userId));
  }
  return problems.sort();
}

import { setImmediate } from 'node:timers/promises';
import type { Movement } from '../../domain/accounting/settlement.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import type { Row } from '../database/tables.ts';
import { inSnapshot } from '../database/transaction.ts';
import { type Account, type EntryDetails, poolHolder } from './accounts.ts';

export interface UsageRecord {
  user: string;
  hpc: string;
  project: string;
  /** `YYYY-MM`, UTC. */
  month: string;
  /** The number of jobs that ended. */
  jobs: number;
  /** The used time, less refunds. */
  timeSeconds: number;
}

/** Adds an entry about the use of an account to the sums of its month. Only the time of users is summed up. */
export async function addMonthlyUsage(
  tx: Tx,
  { projectId, holder, resource }: Account,
  { posted, overrun }: Pick<Movement, 'posted' | 'overrun'>,
  { kind, at }: Pick<EntryDetails, 'kind' | 'at'>,
): Promise<void> {
  if (resource !== 'time' || holder === poolHolder) return;
  const jobs = kind === 'refund' ? 0 : 1;
  await upsertUsage(tx, { month: toMonth(at), projectId, userId: holder, jobs, timeSeconds: posted + overrun });
}

/** `YYYY-MM`, UTC. */
export function toMonth(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 'YYYY-MM'.length);
}

const upsertUsage = prepareQuery((db, param: Param<Row<'monthlyUsage'>>) =>
  db
    .insertInto('monthlyUsage')
    .values({
      month: param('month'),
      projectId: param('projectId'),
      userId: param('userId'),
      jobs: param('jobs'),
      timeSeconds: param('timeSeconds'),
    })
    .onConflict((conflict) =>
      conflict.columns(['month', 'projectId', 'userId']).doUpdateSet((eb) => ({
        jobs: eb('monthlyUsage.jobs', '+', eb.ref('excluded.jobs')),
        timeSeconds: eb('monthlyUsage.timeSeconds', '+', eb.ref('excluded.timeSeconds')),
      })),
    ),
);

/** Lists the usage of a user, ordered by month, system and project. */
export async function listUsageOfUser(db: Db, userId: string): Promise<UsageRecord[]> {
  return (await selectUsage(db).where('userId', '=', userId).execute()).map(toUsageRecord).sort(compareUsage);
}

const rowsPerRead = 1000;

/**
 * Lists the usage of all users, in all projects or in one, as of one time, ordered by month, system, project and user. Each
 * batch is of one month and project. SQLite reads synchronously, so other requests are handled between two reads. All is read before anything is sent:
 * a slow client must not keep a transaction open.
 */
export async function listUsageOfAllUsers(db: Db, projectId?: number): Promise<UsageRecord[][]> {
  const batches: UsageRecord[][] = [];
  await inSnapshot(db, async (snapshot) => {
    for await (const rows of readUsage(snapshot, projectId)) {
      let batch: UsageRecord[] = [];
      for (const record of rows.map(toUsageRecord)) {
        const [first] = batch;
        if (first === undefined || compareUsage(first, record) !== 0) {
          batch = [];
          batches.push(batch);
        }
        batch.push(record);
      }
    }
  });
  // Batches of the same month and project stay in their order, that of the users.
  return batches.sort(([a], [b]) => (a === undefined || b === undefined ? 0 : compareUsage(a, b)));
}

type UsageRow = Awaited<ReturnType<ReturnType<typeof selectUsage>['execute']>>[number];

/** Reads the rows by month, project and user. User ids are digits, which all collations order alike. */
async function* readUsage(db: Db, projectId: number | undefined): AsyncGenerator<readonly UsageRow[]> {
  for (let after: UsageKey | undefined = { month: '', projectId: 0, userId: '' }; after !== undefined; ) {
    const rows: readonly UsageRow[] =
      projectId === undefined
        ? await selectUsageAfter(db, after)
        : await selectProjectUsageAfter(db, { ...after, projectId });
    yield rows;
    const last = rows.length < rowsPerRead ? undefined : rows.at(-1);
    after = last && { month: last.month, projectId: last.projectId, userId: last.userId };
    await setImmediate();
  }
}

type UsageKey = { month: string; projectId: number; userId: string };

const selectUsageAfter = prepareQuery((db, param: Param<UsageKey>) =>
  selectUsage(db)
    .where((eb) =>
      eb(
        eb.refTuple('month', 'projectId', 'userId'),
        '>',
        eb.tuple(param('month'), param('projectId'), param('userId')),
      ),
    )
    .orderBy('month')
    .orderBy('projectId')
    .orderBy('userId')
    .limit(rowsPerRead),
);

const selectProjectUsageAfter = prepareQuery((db, param: Param<UsageKey>) =>
  selectUsage(db)
    .where('projectId', '=', param('projectId'))
    .where((eb) => eb(eb.refTuple('month', 'userId'), '>', eb.tuple(param('month'), param('userId'))))
    .orderBy('month')
    .orderBy('userId')
    .limit(rowsPerRead),
);

function selectUsage(db: Db) {
  return db
    .selectFrom('monthlyUsage')
    .innerJoin('projects', 'projects.id', 'monthlyUsage.projectId')
    .select(['month', 'projectId', 'userId', 'hpc', 'name', 'jobs', 'timeSeconds']);
}

const toUsageRecord = ({ userId, hpc, name, month, jobs, timeSeconds }: UsageRow): UsageRecord => ({
  user: userId,
  hpc,
  project: name,
  month,
  jobs,
  timeSeconds,
});

/** By month, system and project. Not by the database, whose order depends on its collation. */
function compareUsage(a: UsageRecord, b: UsageRecord): number {
  return compareText(a.month, b.month) || compareText(a.hpc, b.hpc) || compareText(a.project, b.project);
}

const compareText = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);

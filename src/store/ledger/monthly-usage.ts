import { setImmediate } from 'node:timers/promises';
import type { Movement } from '../../domain/accounting/charge.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import type { Row } from '../database/tables.ts';
import { inSnapshot } from '../database/transaction.ts';
import { type Account, type EntryDetails, poolHolder } from './accounts.ts';

/** The jobs of a user that ended in a month, in one project, and their used time less refunds. */
export type UsageRecord = Awaited<ReturnType<ReturnType<typeof selectUsage>['execute']>>[number];

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
  return (await selectUsage(db).where('userId', '=', userId).execute()).sort(compareUsage);
}

const rowsPerRead = 1000;

/**
 * Lists the usage of all users, in all projects or in one, as of one time, ordered by month, system, project and user. Each
 * batch is of one month and project. SQLite reads synchronously, so other requests are handled between two reads. All is
 * read before anything is sent: a slow client must not keep a transaction open.
 */
export async function listUsageOfAllUsers(db: Db, projectId?: number): Promise<UsageRecord[][]> {
  const batches: UsageRecord[][] = [];
  await inSnapshot(db, async (snapshot) => {
    for await (const rows of readUsage(snapshot, projectId)) {
      let batch: UsageRecord[] = [];
      for (const record of rows) {
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

/** Reads the rows by month, project and user. User ids are digits, which all collations order alike. */
async function* readUsage(db: Db, projectId: number | undefined): AsyncGenerator<UsageRecord[]> {
  let after: Pick<UsageRecord, 'month' | 'projectId' | 'user'> = { month: '', projectId: 0, user: '' };
  for (;;) {
    const rows: UsageRecord[] = await selectUsage(db)
      .where((eb) =>
        projectId === undefined
          ? eb(eb.refTuple('month', 'projectId', 'userId'), '>', eb.tuple(after.month, after.projectId, after.user))
          : eb.and([
              eb('projectId', '=', projectId),
              eb(eb.refTuple('month', 'userId'), '>', eb.tuple(after.month, after.user)),
            ]),
      )
      .orderBy('month')
      .orderBy('projectId')
      .orderBy('userId')
      .limit(rowsPerRead)
      .execute();
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsPerRead) return;
    after = last;
    await setImmediate();
  }
}

function selectUsage(db: Db) {
  return db
    .selectFrom('monthlyUsage')
    .innerJoin('projects', 'projects.id', 'monthlyUsage.projectId')
    .select(['month', 'projectId', 'userId as user', 'hpc', 'name as project', 'jobs', 'timeSeconds']);
}

/** By month, system and project. Not by the database, whose order depends on its collation. */
function compareUsage(a: UsageRecord, b: UsageRecord): number {
  return compareText(a.month, b.month) || compareText(a.hpc, b.hpc) || compareText(a.project, b.project);
}

const compareText = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);

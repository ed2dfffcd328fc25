import { setImmediate } from 'node:timers/promises';
import type { Movement } from '../../domain/accounting/settlement.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
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

type Sums = { month: string; projectId: number; userId: string; jobs: number; timeSeconds: number };

const upsertUsage = prepareQuery((db, param: Param<Sums>) =>
  db
    .insertInto('monthly_usage')
    .values({
      month: param('month'),
      project_id: param('projectId'),
      user_id: param('userId'),
      jobs: param('jobs'),
      time_seconds: param('timeSeconds'),
    })
    .onConflict((conflict) =>
      conflict.columns(['month', 'project_id', 'user_id']).doUpdateSet((eb) => ({
        jobs: eb('monthly_usage.jobs', '+', eb.ref('excluded.jobs')),
        time_seconds: eb('monthly_usage.time_seconds', '+', eb.ref('excluded.time_seconds')),
      })),
    ),
);

/** Lists the usage of a user, ordered by month, system and project. */
export async function listUsageOfUser(db: Db, userId: string): Promise<UsageRecord[]> {
  return (await selectUsage(db).where('user_id', '=', userId).execute()).map(toUsageRecord).sort(compareUsage);
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
    after = last && { month: last.month, projectId: last.project_id, userId: last.user_id };
    await setImmediate();
  }
}

type UsageKey = { month: string; projectId: number; userId: string };

const selectUsageAfter = prepareQuery((db, param: Param<UsageKey>) =>
  selectUsage(db)
    .where((eb) =>
      eb(
        eb.refTuple('month', 'project_id', 'user_id'),
        '>',
        eb.tuple(param('month'), param('projectId'), param('userId')),
      ),
    )
    .orderBy('month')
    .orderBy('project_id')
    .orderBy('user_id')
    .limit(rowsPerRead),
);

const selectProjectUsageAfter = prepareQuery((db, param: Param<UsageKey>) =>
  selectUsage(db)
    .where('project_id', '=', param('projectId'))
    .where((eb) => eb(eb.refTuple('month', 'user_id'), '>', eb.tuple(param('month'), param('userId'))))
    .orderBy('month')
    .orderBy('user_id')
    .limit(rowsPerRead),
);

function selectUsage(db: Db) {
  return db
    .selectFrom('monthly_usage')
    .innerJoin('projects', 'projects.id', 'monthly_usage.project_id')
    .select(['month', 'project_id', 'user_id', 'hpc', 'name', 'jobs', 'time_seconds']);
}

const toUsageRecord = ({ user_id, hpc, name, month, jobs, time_seconds }: UsageRow): UsageRecord => ({
  user: user_id,
  hpc,
  project: name,
  month,
  jobs,
  timeSeconds: time_seconds,
});

/** By month, system and project. Not by the database, whose order depends on its collation. */
function compareUsage(a: UsageRecord, b: UsageRecord): number {
  return compareText(a.month, b.month) || compareText(a.hpc, b.hpc) || compareText(a.project, b.project);
}

const compareText = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);

import type { Movement } from '../../domain/accounting/settlement.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
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

/**
 * Lists the usage of a user or, in batches of one month and project, of all users. Ordered by month, system, project and
 * user.
 */
export async function* listUsage(db: Db, userId?: string): AsyncGenerator<UsageRecord[]> {
  if (userId !== undefined) yield sortUsage(await selectUsage(db).where('user_id', '=', userId).execute());
  else
    for await (const { month, projectId } of listMonthsOfProjects(db))
      yield sortUsage(
        await selectUsage(db).where('month', '=', month).where('monthly_usage.project_id', '=', projectId).execute(),
      );
}

async function* listMonthsOfProjects(db: Db): AsyncGenerator<{ month: string; projectId: number }> {
  const projects = await db.selectFrom('projects').select(['id', 'hpc', 'name']).execute();
  projects.sort((a, b) => compareText(`${a.hpc} ${a.name}`, `${b.hpc} ${b.name}`));
  for (let month = await findMonthAfter(db, ''); month !== null; month = await findMonthAfter(db, month))
    for (const { id } of projects) yield { month, projectId: id };
}

async function findMonthAfter(db: Db, month: string): Promise<string | null> {
  const { next } = await db
    .selectFrom('monthly_usage')
    .select((eb) => eb.fn.min<string | null>('month').as('next'))
    .where('month', '>', month)
    .executeTakeFirstOrThrow();
  return next;
}

function selectUsage(db: Db) {
  return db
    .selectFrom('monthly_usage')
    .innerJoin('projects', 'projects.id', 'monthly_usage.project_id')
    .select(['user_id as user', 'hpc', 'name as project', 'month', 'jobs', 'time_seconds as timeSeconds']);
}

/** The order of the databases depends on their collation. */
function sortUsage(rows: UsageRecord[]): UsageRecord[] {
  const key = ({ month, hpc, project, user }: UsageRecord) => `${month} ${hpc} ${project} ${user}`;
  return rows.sort((a, b) => compareText(key(a), key(b)));
}

const compareText = (a: string, b: string) => (a < b ? -1 : 1);

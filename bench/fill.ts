import { sql } from 'kysely';
import type { StageNames } from '../src/domain/jobs/job.ts';
import type { Db, Tx } from '../src/store/database/handle.ts';
import { inTransaction } from '../src/store/database/transaction.ts';
import { shippedConfig } from '../test/support/shipped-config.ts';
import { type FilledUser, insertEnrolments, listFilledProjects } from './fill/enrolments.ts';
import { insertJobEvents } from './fill/events.ts';
import { insertEndedJobs } from './fill/jobs.ts';
import { insertSettledHolds } from './fill/ledger.ts';

export interface FillOptions {
  /** The number of ended jobs, accepted one minute apart up to now. All users in all open projects take turns. */
  jobs: number;
  users: number;
  /** The users have this id and the following ones; default 600000. Another fill can give the same users more jobs. */
  firstUserId?: number;
  /** The systems of the projects; default: the shipped ones. */
  systems?: Readonly<Record<string, { stages: StageNames }>>;
}

/** A server on the same database can write between two of these transactions. */
const jobsPerTransaction = 50_000;

/**
 * Fills a migrated database with users, their tokens, memberships and grants, and with ended jobs and their holds, ledger
 * entries and events, as if the jobs had been submitted and had run: `bursar ledger verify` finds no problem. Each
 * statement inserts the rows of many jobs. On PostgreSQL it needs a superuser, to skip the checks of foreign keys.
 */
export async function fillDatabase(db: Db, options: FillOptions): Promise<FilledUser[]> {
  const { jobs, users: userCount, firstUserId = 600_000, systems = shippedConfig().systems } = options;
  const isPostgres = db.backend.dialect.name === 'postgres';
  const inFastTransaction = (work: (tx: Tx) => Promise<unknown>) =>
    inTransaction(db, async (tx) => {
      if (isPostgres) await sql`set local session_replication_role = replica`.execute(tx);
      await work(tx);
    });
  if (!isPostgres) for (const pragma of sqlitePragmas) await sql.raw(`pragma ${pragma}`).execute(db);

  const now = Date.now();
  const projects = await listFilledProjects(db, now);
  const users = Array.from({ length: userCount }, (_, index) => toFilledUser(firstUserId + index));
  await inFastTransaction((tx) => insertEnrolments(tx, { users, projects, now }));
  for (let from = 0; from < jobs; from += jobsPerTransaction) {
    const range = { from, to: Math.min(jobs, from + jobsPerTransaction), total: jobs };
    await inFastTransaction(async (tx) => {
      const ids = await insertEndedJobs(tx, { range, firstUserId, userCount, projects, systems, now });
      await insertSettledHolds(tx, ids);
      await insertJobEvents(tx, ids, now);
    });
  }
  // PostgreSQL does it in the background. SQLite never does it for a running server.
  if (isPostgres) await sql`analyze`.execute(db);
  return users;
}

/** Of the connection that writes. A crash may destroy the database. */
const sqlitePragmas = ['synchronous = off', 'foreign_keys = off', 'cache_size = -500000'];

const toFilledUser = (id: number): FilledUser => ({ id: String(id), token: `bursar_filled_${id}` });

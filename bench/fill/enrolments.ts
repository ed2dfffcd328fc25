import { sql } from 'kysely';
import { zeroMovement } from '../../src/domain/accounting/charge.ts';
import { chunks } from '../../src/domain/chunks.ts';
import { userScopes } from '../../src/domain/identity/policy.ts';
import { hashToken } from '../../src/services/identity/tokens.ts';
import type { Db, Tx } from '../../src/store/database/handle.ts';
import { poolHolder } from '../../src/store/ledger/accounts.ts';

export interface FilledUser {
  id: string;
  token: string;
}

export interface FilledProject {
  id: number;
  hpc: string;
  name: string;
  /** The current period. */
  periodId: number;
}

/** The grant of each user in each project, much more than the jobs use. The pools of 5,000 users are safe integers. */
const grants = { time: 1e9, space: 1e12 };

/** Lists the open projects that have a current period. */
export async function listFilledProjects(db: Db, now: number): Promise<FilledProject[]> {
  const projects = await db
    .selectFrom('projects')
    .innerJoin('periods', 'periods.projectId', 'projects.id')
    .select(['projects.id', 'projects.hpc', 'projects.name', 'periods.id as periodId'])
    .where('closedAt', 'is', null)
    .where('startsAt', '<=', now)
    .where((eb) => eb.or([eb('endsAt', 'is', null), eb('endsAt', '>', now)]))
    .orderBy('projects.id')
    .execute();
  if (projects.length === 0) throw new Error('the database has no open project');
  return projects;
}

/** Creates the users that do not exist, with tokens, memberships and accounts, and adds a grant to each account. */
export async function insertEnrolments(
  tx: Tx,
  { users, projects, now }: { users: readonly FilledUser[]; projects: readonly FilledProject[]; now: number },
): Promise<void> {
  for (const chunk of chunks(users)) {
    const userRows = chunk.map(({ id }) => ({ id, role: 'user' as const, createdAt: now }));
    await tx
      .insertInto('users')
      .values(userRows)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const token = {
      name: 'filled',
      scopes: [...userScopes].join(' '),
      createdAt: now,
      expiresAt: null,
      revokedAt: null,
    };
    const tokenRows = chunk.map((user) => ({ userId: user.id, hash: hashToken(user.token), ...token }));
    await tx
      .insertInto('tokens')
      .values(tokenRows)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    for (const project of projects) await insertMembers(tx, chunk, project, now);
  }
}

async function insertMembers(tx: Tx, users: readonly FilledUser[], project: FilledProject, now: number): Promise<void> {
  const membership = { projectId: project.id, status: 'active' as const, reason: '', since: now };
  await tx
    .insertInto('memberships')
    .values(users.map(({ id }) => ({ userId: id, ...membership })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  for (const resource of ['time', 'space'] as const) {
    const key = { projectId: project.id, periodId: resource === 'time' ? project.periodId : 0, resource };
    const caps = users.map(({ id }) => ({ ...key, holder: id, ...zeroMovement, alerted: 0 }));
    await tx
      .insertInto('accounts')
      .values(caps)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const holders = [poolHolder, ...users.map(({ id }) => id)];
    const ofHolders = sql`project_id = ${project.id} and period_id = ${key.periodId} and resource = ${resource}
      and holder in (${sql.join(holders)})`;
    const amount = sql`case holder when ${poolHolder} then ${sql.lit(grants[resource] * users.length)}
      else ${sql.lit(grants[resource])} end`;
    await sql`update accounts set granted = granted + ${amount}, version = version + 1 where ${ofHolders}`.execute(tx);
    await sql`
      insert into entries (account_id, kind, granted, held, posted, overrun, available_after, job, actor, reason, at)
      select id, 'grant', ${amount}, 0, 0, 0, granted - held - posted - overrun, null, 'bursar', 'filled', ${sql.lit(now)}
      from accounts where ${ofHolders}`.execute(tx);
  }
}

import type { Config } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';
import { bytesPerKb } from '../../domain/units.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertMember, listPendingAutoJoins } from '../../store/identity/members.ts';
import {
  findProject,
  insertProject,
  listProjects,
  lockProject,
  type NewProject,
  type ProjectRecord,
  updateProject,
} from '../../store/identity/projects.ts';
import { type Role, upsertUser } from '../../store/identity/users.ts';
import { ensureAccount } from '../../store/ledger/accounts.ts';
import { addGrant, ensurePool } from '../../store/ledger/grants.ts';
import { insertPeriod, listOpenPeriods } from '../../store/ledger/periods.ts';

const bursar = 'bursar';

/**
 * Creates the user where unknown, who then joins every project that is joined automatically, each system's default
 * project among them, with its grant. A member is never granted twice, whatever has become of the first grant.
 */
export async function enrolUser(db: Db, userId: string, role: Role, now: number): Promise<void> {
  if (!/^\d{1,20}$/.test(userId)) {
    throw new BursarError('invalid_argument', `A user identifier is a number of up to 20 digits, not "${userId}".`);
  }
  await inTransaction(db, (tx) => enrolInTransaction(tx, userId, role, now));
}

/** The same, inside a transaction of the caller's. */
export async function enrolInTransaction(tx: Tx, userId: string, role: Role, now: number): Promise<void> {
  await upsertUser(tx, userId, role, now);
  await joinAutomatically(tx, userId, now);
}

/** Brings the books in line with the configuration at start: new projects open, and everybody joins them. */
export async function syncProjects(db: Db, config: Config, now: number): Promise<void> {
  await inTransaction(db, async (tx) => {
    for (const [hpc, system] of Object.entries(config.systems)) {
      for (const [index, { name, autoJoin, grant }] of system.projects.entries()) {
        const project = {
          hpc,
          name,
          autoJoin: autoJoin || index === 0,
          grant: { timeSeconds: grant.timeSeconds, spaceBytes: grant.spaceKb * bytesPerKb },
          createdAt: now,
        };
        const known = await findProject(tx, hpc, name);
        if (known === undefined) await openProject(tx, project);
        else await updateProject(tx, known.id, project);
      }
    }
    const projects = new Map((await listProjects(tx)).map((project) => [project.id, project]));
    for (const { userId, projectId } of await listPendingAutoJoins(tx)) {
      const project = projects.get(projectId);
      if (project !== undefined) await joinProject(tx, project, userId, bursar, now);
    }
  });
}

/** Opens a project with empty pools and a period without end. */
export async function openProject(tx: Tx, project: NewProject): Promise<number> {
  const id = await insertProject(tx, project);
  const periodId = await insertPeriod(tx, id, project.createdAt, null);
  await ensurePool(tx, id, 'time', periodId);
  await ensurePool(tx, id, 'space');
  return id;
}

async function joinAutomatically(tx: Tx, userId: string, now: number): Promise<void> {
  for (const project of await listProjects(tx)) {
    if (!project.autoJoin || project.closedAt !== null) continue;
    await joinProject(tx, project, userId, bursar, now);
  }
}

/**
 * Makes the user a member, with a cap in every period that has not ended. Each member brings the project's default
 * grant into the pool, so that the caps never promise more than it. True when the user was new to the project.
 */
export async function joinProject(tx: Tx, project: ProjectRecord, userId: string, actor: string, now: number) {
  if (!(await insertMember(tx, userId, project.id, now))) return false;
  await lockProject(tx, project.id);
  const note = { actor, reason: `default grant on joining ${project.name}`, at: now };
  for (const { id: periodId } of await listOpenPeriods(tx, project.id, now)) {
    await openCap(tx, { projectId: project.id, userId, resource: 'time', periodId }, project.grant.timeSeconds, note);
  }
  await openCap(tx, { projectId: project.id, userId, resource: 'space' }, project.grant.spaceBytes, note);
  return true;
}

interface Cap {
  projectId: number;
  userId: string;
  resource: 'time' | 'space';
  periodId?: number;
}

/** Opens a user's cap and grants into it, and into the pool. */
export async function openCap(
  tx: Tx,
  { projectId, userId, resource, periodId }: Cap,
  amount: number,
  note: { actor: string; reason: string; at: number },
): Promise<void> {
  await addGrant(tx, await ensurePool(tx, projectId, resource, periodId), amount, 'grant', note);
  const cap = { projectId, holder: userId, resource, ...(periodId === undefined ? {} : { periodId }) };
  await addGrant(tx, await ensureAccount(tx, cap), amount, 'grant', note);
}

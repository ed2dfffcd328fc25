import type { Config } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import { assignedUserIds, isAssignedUserId, isUserId } from '../../domain/identity/user-id.ts';
import { bytesPerKb } from '../../domain/units.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { resetGroupMemberships } from '../../store/identity/identities.ts';
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
import { upsertUser, userExists } from '../../store/identity/users.ts';
import { type ChangeDetails, ensureAccount } from '../../store/ledger/accounts.ts';
import { addGrant, ensurePool } from '../../store/ledger/grants.ts';
import { insertPeriod, listOpenPeriods } from '../../store/ledger/periods.ts';

/** The actor of automatic entries in the ledger and in the audit trail. */
export const automaticActor = 'bursar';

/**
 * Creates the user if unknown, and adds them to every open auto-join project, which includes the default project of each
 * system, with its default grant. A member never gets the default grant twice, even if the first one was withdrawn. Returns
 * whether the user is new.
 */
export async function enrolUser(db: Db, userId: string, role: SiteRole, now: number): Promise<boolean> {
  if (!isUserId(userId)) {
    throw new BursarError('invalid_argument', `A user identifier is a number of up to 20 digits, not "${userId}".`);
  }
  return await inTransaction(db, async (tx) => {
    const isNew = !(await userExists(tx, userId));
    if (isNew && isAssignedUserId(userId)) {
      const { first, last } = assignedUserIds;
      const message = `Bursar itself assigns the identifiers from ${first} to ${last}, to users of OpenID providers. Choose another one.`;
      throw new BursarError('invalid_argument', message);
    }
    await upsertUser(tx, userId, role, now);
    await joinAutoJoinProjects(tx, userId, now);
    return isNew;
  });
}

/** At start: creates and updates the projects of the configuration, and adds all users to new auto-join projects. */
export async function syncProjects(db: Db, config: Config, now: number): Promise<void> {
  await inTransaction(db, async (tx) => {
    for (const [hpc, system] of Object.entries(config.systems)) {
      for (const [index, { name, autoJoin, grant }] of system.projects.entries()) {
        const project = {
          hpc,
          name,
          autoJoin: Number(autoJoin || index === 0),
          grantTimeSeconds: grant.timeSeconds,
          grantSpaceBytes: grant.spaceKb * bytesPerKb,
          createdAt: now,
        };
        const existing = await findProject(tx, hpc, name);
        if (existing === undefined) await storeProject(tx, project);
        else await updateProject(tx, existing.id, project);
      }
    }
    const projects = new Map((await listProjects(tx)).map((project) => [project.id, project]));
    for (const { userId, projectId } of await listPendingAutoJoins(tx)) {
      const project = projects.get(projectId);
      if (project !== undefined) await joinProject(tx, project, userId, automaticActor, now);
    }
  });
}

/** Creates a project with empty pools and a period without end. */
export async function storeProject(tx: Tx, project: NewProject): Promise<number> {
  const id = await insertProject(tx, project);
  await resetGroupMemberships(tx);
  const periodId = await insertPeriod(tx, { projectId: id, startsAt: project.createdAt });
  await ensurePool(tx, id, 'time', periodId);
  await ensurePool(tx, id, 'space');
  return id;
}

export async function joinAutoJoinProjects(tx: Tx, userId: string, now: number): Promise<void> {
  for (const project of await listProjects(tx)) {
    if (project.autoJoin === 0 || project.closedAt !== null) continue;
    await joinProject(tx, project, userId, automaticActor, now);
  }
}

/**
 * Makes the user a member, with a cap in every period that has not ended. The default grant of each member is added to
 * the pool too, so that the caps never add up to more than the pool. Returns false if the user was a member before.
 */
export async function joinProject(tx: Tx, project: ProjectRecord, userId: string, actor: string, now: number) {
  if (!(await insertMember(tx, userId, project.id, now))) return false;
  await lockProject(tx, project.id);
  const note = { actor, reason: `default grant on joining ${project.name}`, at: now };
  const cap = { projectId: project.id, holder: userId };
  for (const { id: periodId } of await listOpenPeriods(tx, project.id, now)) {
    await createCap(tx, { ...cap, resource: 'time', periodId }, project.grantTimeSeconds, note);
  }
  await createCap(tx, { ...cap, resource: 'space' }, project.grantSpaceBytes, note);
  return true;
}

type Cap = Parameters<typeof ensureAccount>[1];

/** Creates a user's cap, and adds the amount to the cap and to the pool. */
export async function createCap(tx: Tx, cap: Cap, amount: number, note: ChangeDetails): Promise<void> {
  const { projectId, resource, periodId } = cap;
  await addGrant(tx, await ensurePool(tx, projectId, resource, periodId), amount, 'grant', note);
  await addGrant(tx, await ensureAccount(tx, cap), amount, 'grant', note);
}

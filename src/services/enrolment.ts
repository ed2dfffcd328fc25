import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { openCaps, openPools } from '../store/ledger.ts';
import { currentPeriod, findProject, insertMembership, insertProject, type ProjectRecord } from '../store/projects.ts';
import type { Db } from '../store/tables.ts';
import { type Role, upsertUser, userIds } from '../store/users.ts';

type ProjectConfig = Config['systems'][string]['projects'][number];

const bytesPerKb = 1000;
const actor = 'bursar';

/**
 * Creates the user where unknown, who then joins each system's default project and every project that is joined
 * automatically, with their grants. A member is never granted twice, whatever has become of the first grant.
 */
export async function enrolUser(db: Db, config: Config, userId: string, role: Role, now: number): Promise<void> {
  if (!/^\d{1,20}$/.test(userId)) {
    throw new BursarError('invalid_argument', `A user identifier is a number of up to 20 digits, not "${userId}".`);
  }
  await db.transaction().execute((tx) => enrolInTransaction(tx, config, userId, role, now));
}

/** The same, inside a transaction of the caller's. */
export async function enrolInTransaction(tx: Db, config: Config, userId: string, role: Role, now: number) {
  await upsertUser(tx, userId, role, now);
  await joinProjects(tx, config, userId, now);
}

/** Brings the books in line with the configuration at start: new projects open, and everybody joins them. */
export async function syncProjects(db: Db, config: Config, now: number): Promise<void> {
  await db.transaction().execute(async (tx) => {
    for (const [hpc, system] of Object.entries(config.systems)) {
      for (const { name } of system.projects) {
        if ((await findProject(tx, hpc, name)) === undefined) await openProject(tx, hpc, name, now);
      }
    }
    for (const userId of await userIds(tx)) await joinProjects(tx, config, userId, now);
  });
}

async function openProject(db: Db, hpc: string, name: string, now: number): Promise<void> {
  const project = await insertProject(db, hpc, name, now);
  await openPools(db, project.id, await periodOf(db, project, now));
}

async function joinProjects(db: Db, config: Config, userId: string, now: number): Promise<void> {
  for (const [hpc, system] of Object.entries(config.systems)) {
    for (const [index, project] of system.projects.entries()) {
      if (index > 0 && !project.autoJoin) continue;
      await joinProject(db, hpc, project, userId, now);
    }
  }
}

async function joinProject(db: Db, hpc: string, { name, grant }: ProjectConfig, userId: string, now: number) {
  const project = await findProject(db, hpc, name);
  if (project === undefined) throw new Error(`project ${name} of ${hpc} is not in the books`);
  if (!(await insertMembership(db, userId, project.id, now))) return;
  await openCaps(
    db,
    { projectId: project.id, periodId: await periodOf(db, project, now), userId },
    { timeSeconds: grant.timeSeconds, spaceBytes: grant.spaceKb * bytesPerKb },
    { job: null, actor, reason: `default grant on joining ${name}`, at: now },
  );
}

async function periodOf(db: Db, project: ProjectRecord, now: number): Promise<number> {
  const period = await currentPeriod(db, project.id, now);
  if (period === undefined) throw new Error(`project ${project.name} has no period now`);
  return period;
}

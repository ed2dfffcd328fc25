import { BursarError } from '../domain/errors.ts';
import type { HpcSystem } from '../domain/system.ts';
import { type AccountSet, findAccounts } from '../store/accounts.ts';
import { findMember, type MemberRecord } from '../store/members.ts';
import { currentPeriod } from '../store/periods.ts';
import { findProject, type ProjectRecord } from '../store/projects.ts';
import { pauseOf } from '../store/systems.ts';
import type { Db } from '../store/tables.ts';
import type { Actor } from './actor.ts';
import { type Place, projectNamed, type Systems, systemNamed } from './places.ts';

/** Where a submission goes, checked before anything of its body is read. */
export interface Destination {
  system: HpcSystem;
  project: ProjectRecord;
  accounts: AccountSet;
}

export interface DestinationDeps {
  db: Db;
  systems: Systems;
  /** The default project of a system: the first one that its configuration lists. */
  defaultProject(hpc: string): string;
  now(): number;
}

/** Throws unless the caller may submit there: 404 for what does not exist, 403 with the reason for the rest. */
export async function findDestination(
  deps: DestinationDeps,
  actor: Actor,
  { hpc = '', project: projectName }: Place,
): Promise<Destination> {
  const { db, systems, now } = deps;
  const system = systemNamed(systems, hpc);
  const project = await projectNamed(db, systems, hpc, projectName ?? deps.defaultProject(hpc));
  refuseNonMembers(project, await findMember(db, actor.userId, project.id));
  await refuseWhilePaused(db, hpc);
  const period = await currentPeriod(db, project.id, now());
  const accounts = period && (await findAccounts(db, project.id, period, actor.userId));
  if (!accounts)
    throw new BursarError('no_grant', `${project.name} has no grant of time for now. Ask an administrator for one.`);
  return { system, project, accounts };
}

async function refuseWhilePaused(db: Db, hpc: string): Promise<void> {
  const pause = await pauseOf(db, hpc);
  if (pause === null) return;
  throw new BursarError('system_paused', `${hpc} takes no jobs for now: ${pause}. Try again later.`, {
    transient: true,
  });
}

/** Throws when the caller may not submit to the project any more. */
export async function checkMember(db: Db, actor: Actor, { hpc, name }: ProjectRecord): Promise<void> {
  const project = await findProject(db, hpc, name);
  if (project !== undefined) refuseNonMembers(project, await findMember(db, actor.userId, project.id));
}

function refuseNonMembers(project: ProjectRecord, member: MemberRecord | undefined): void {
  const because = member?.reason ? `: ${member.reason}` : '';
  if (project.closedAt !== null)
    throw new BursarError('project_closed', `${project.name} is closed. Use another project.`);
  if (member === undefined || member.status === 'removed') {
    throw new BursarError(
      'not_a_member',
      `You are not a member of ${project.name}, so you cannot submit to it${because}. Ask an administrator to add you.`,
    );
  }
  if (member.status === 'banned') {
    throw new BursarError(
      'banned',
      `You are banned from submitting to ${project.name}${because}. Ask an administrator.`,
    );
  }
}

import { BursarError } from '../../domain/errors.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Db } from '../../store/database/handle.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findEligibility, type SubmissionEligibility } from '../../store/jobs/submission-eligibility.ts';
import { type AccountSet, findCurrentAccounts } from '../../store/ledger/accounts.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, projectNotFound, requireSystem, type Systems } from '../scope.ts';

/** Where a submission goes, checked before anything of its body is read. */
export interface Destination {
  system: HpcSystem;
  project: Pick<ProjectRecord, 'id' | 'hpc' | 'name'>;
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
  { hpc = '', project: projectName }: PathScope,
): Promise<Destination> {
  const { db, systems, now } = deps;
  const system = requireSystem(systems, hpc);
  const standing = await findEligibility(db, actor.userId, hpc, projectName ?? deps.defaultProject(hpc));
  if (standing === undefined) throw projectNotFound(hpc);
  const { project, pauseReason: pause } = standing;
  refuseNonMembers(standing);
  if (pause !== null) {
    const message = `${hpc} takes no jobs for now: ${pause}. Try again later.`;
    throw new BursarError('system_paused', message, { transient: true });
  }
  const accounts = await findCurrentAccounts(db, project.id, actor.userId, now());
  if (accounts === undefined)
    throw new BursarError('no_grant', `${project.name} has no grant of time for now. Ask an administrator for one.`);
  return { system, project, accounts };
}

/** Throws when the caller may not submit to the project any more. */
export async function checkMember(db: Db, actor: Actor, { hpc, name }: Destination['project']): Promise<void> {
  const standing = await findEligibility(db, actor.userId, hpc, name);
  if (standing !== undefined) refuseNonMembers(standing);
}

function refuseNonMembers({ project, member }: SubmissionEligibility): void {
  const because = member?.reason ? `: ${member.reason}` : '';
  if (project.closedAt !== null)
    throw new BursarError('project_closed', `${project.name} is closed. Use another project.`);
  if (member === null || member.status === 'removed') {
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

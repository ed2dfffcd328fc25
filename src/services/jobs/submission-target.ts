import { BursarError } from '../../domain/errors.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findEligibility, type SubmissionEligibility } from '../../store/jobs/submission-eligibility.ts';
import { type AccountSet, findCurrentAccounts } from '../../store/ledger/accounts.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, projectNotFound, requireSystem, type Systems } from '../scope.ts';
import type { UnfinishedJobs } from './unfinished-job-limits.ts';

/** The system, project and accounts of a submission. The caller may submit to them. */
export interface SubmissionTarget {
  system: HpcSystem;
  project: Pick<ProjectRecord, 'id' | 'hpc' | 'name'>;
  accounts: AccountSet;
  maxUnfinishedJobs: UnfinishedJobs;
}

export interface SubmissionTargetDeps {
  db: Db;
  systems: Systems;
  /** The first project that the configuration lists for a system. */
  defaultProject(hpc: string): string;
  maxUnfinishedJobs(hpc: string, project: string): UnfinishedJobs;
  now(): number;
}

/** Throws unless the actor may submit: 404 for an unknown system or project, 403 or 503 with the reason otherwise. */
export async function requireSubmissionTarget(
  { db, systems, defaultProject, maxUnfinishedJobs, now }: SubmissionTargetDeps,
  { userId }: Actor,
  { hpc = '', project: projectName }: PathScope,
): Promise<SubmissionTarget> {
  const system = requireSystem(systems, hpc);
  const eligibility = await findEligibility(db, userId, hpc, projectName ?? defaultProject(hpc), now());
  if (eligibility === undefined) throw projectNotFound(hpc);
  requireActiveMember(eligibility);
  const { project, pauseReason } = eligibility;
  if (pauseReason !== null) {
    const message = `${hpc} is paused and takes no jobs: ${pauseReason}. Try again later.`;
    throw new BursarError('system_paused', message, { transient: true });
  }
  const accounts = await requireAccounts(db, project, userId, now());
  return { system, project, accounts, maxUnfinishedJobs: maxUnfinishedJobs(hpc, project.name) };
}

/**
 * Returns the target with the accounts of the current period, which may have begun since the target was found. Throws if
 * the user may no longer submit to the project.
 */
export async function requireStillEligible(
  tx: Tx,
  userId: string,
  target: SubmissionTarget,
  now: number,
): Promise<SubmissionTarget> {
  const { project, accounts } = target;
  const eligibility = await findEligibility(tx, userId, project.hpc, project.name, now);
  if (eligibility === undefined) throw projectNotFound(project.hpc);
  requireActiveMember(eligibility);
  if (eligibility.periodId === accounts.timePool.periodId) return target;
  return { ...target, accounts: await requireAccounts(tx, project, userId, now) };
}

async function requireAccounts(
  db: Db,
  project: SubmissionTarget['project'],
  userId: string,
  now: number,
): Promise<AccountSet> {
  const accounts = await findCurrentAccounts(db, project.id, userId, now);
  if (accounts !== undefined) return accounts;
  const message = `${project.name} has no grant of time for the current period. Ask an administrator for one.`;
  throw new BursarError('no_grant', message);
}

function requireActiveMember({ project, member }: SubmissionEligibility): void {
  const reason = member?.reason ? `: ${member.reason}` : '';
  if (project.closedAt !== null) {
    throw new BursarError('project_closed', `${project.name} is closed. Use another project.`);
  }
  if (member === null || member.status === 'removed') {
    const message = `You are not a member of ${project.name}, so you cannot submit to it${reason}. Ask an administrator to add you.`;
    throw new BursarError('not_a_member', message);
  }
  if (member.status === 'banned') {
    const message = `You are banned from submitting to ${project.name}${reason}. Ask an administrator.`;
    throw new BursarError('banned', message);
  }
}

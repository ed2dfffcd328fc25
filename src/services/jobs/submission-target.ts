import { availableBalance, calculateCostSeconds, maxAffordableRuntimeHours } from '../../domain/accounting/charge.ts';
import { quotaExceeded, type Shortfall } from '../../domain/accounting/shortfall.ts';
import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findEligibility, type SubmissionEligibility } from '../../store/jobs/submission-eligibility.ts';
import type { AccountSet } from '../../store/ledger/accounts.ts';
import { type CommonDeps, type PathScope, projectNotFound, requireSystem } from '../scope.ts';
import type { ServiceDeps, UnfinishedJobs } from '../service-deps.ts';

/** The system, project and accounts of a submission. The caller may submit to them. */
export interface SubmissionTarget {
  system: HpcSystem;
  project: Pick<ProjectRecord, 'id' | 'hpc' | 'name'>;
  accounts: AccountSet;
  maxUnfinishedJobs: UnfinishedJobs;
}

export type SubmissionTargetDeps = CommonDeps & Pick<ServiceDeps, 'defaultProject' | 'maxUnfinishedJobs'>;

/** Throws unless the user may submit: 404 for an unknown system or project, 403 or 503 with the reason otherwise. */
export async function requireSubmissionTarget(
  { db, systems, defaultProject, maxUnfinishedJobs, now }: SubmissionTargetDeps,
  userId: string,
  { hpc = '', project: projectName }: PathScope,
): Promise<SubmissionTarget> {
  const system = requireSystem(systems, hpc);
  const eligibility = await requireActiveMember(db, userId, hpc, projectName ?? defaultProject(hpc), now());
  const { project, pauseReason } = eligibility;
  if (pauseReason !== null) {
    const message = `${hpc} is paused and takes no jobs: ${pauseReason}. Try again later.`;
    throw new BursarError('system_paused', message, { transient: true });
  }
  return {
    system,
    project,
    accounts: requireAccounts(eligibility),
    maxUnfinishedJobs: maxUnfinishedJobs(hpc, project.name),
  };
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
  const eligibility = await requireActiveMember(tx, userId, target.project.hpc, target.project.name, now);
  return { ...target, accounts: requireAccounts(eligibility) };
}

function requireAccounts({ project, accounts }: SubmissionEligibility): AccountSet {
  if (accounts !== undefined) return accounts;
  const message = `${project.name} has no grant of time for the current period. Ask an administrator for one.`;
  throw new BursarError('no_grant', message);
}

async function requireActiveMember(
  db: Db,
  userId: string,
  hpc: string,
  name: string,
  now: number,
): Promise<SubmissionEligibility> {
  const eligibility = await findEligibility(db, userId, hpc, name, now);
  if (eligibility === undefined) throw projectNotFound(hpc);
  const { project, member } = eligibility;
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
  return eligibility;
}

export interface Quote {
  /** The cost, which a submission holds. */
  timeSeconds: number;
  /** The rest of the smaller of pool and cap, at least 0. */
  timeLeftSeconds: number;
  /** The longest runtime that the quota allows for these nodes and cores. */
  maxRuntimeHours: number;
  shortfall: Shortfall | null;
  /** Why the quota refuses the job. */
  refusal: BursarError | null;
}

/** The cost of a job, and whether the quota covers it. */
export function quoteFor({ system, accounts }: SubmissionTarget, request: JobRequest): Quote {
  const { charge, limits } = system;
  const needed = calculateCostSeconds(request, request.runtimeHours, charge);
  const time = smaller(availableBalance(accounts.timePool), availableBalance(accounts.timeCap));
  const space = smaller(availableBalance(accounts.spacePool), availableBalance(accounts.spaceCap));
  const maxRuntimeHours = maxAffordableRuntimeHours(request, charge, time.available, limits.runtimeHours);
  let shortfall: Shortfall | null = null;
  if (time.available < needed)
    shortfall = { resource: 'time', ...time, needed, available: Math.max(0, time.available) };
  // The size of the zip is not known yet, but overused space rejects every job.
  else if (space.available < 0) shortfall = { resource: 'space', ...space, needed: 0, available: 0 };
  const timeLeftSeconds = Math.max(0, time.available - needed);
  const refusal = shortfall && quotaExceeded(shortfall, maxRuntimeHours, charge);
  return { timeSeconds: needed, timeLeftSeconds, maxRuntimeHours, shortfall, refusal };
}

function smaller(pool: number, cap: number): { account: 'pool' | 'cap'; available: number } {
  return pool < cap ? { account: 'pool', available: pool } : { account: 'cap', available: cap };
}

/** Unfinished jobs may take hours to end, but a client that waits for much longer wastes free places. */
const retryAfterSeconds = 60;

/** Returns the error of a submission if the counts, with the new job included, exceed a limit. Otherwise null. */
export function findJobLimitError(target: SubmissionTarget, counts: UnfinishedJobs): BursarError | null {
  const { project, maxUnfinishedJobs } = target;
  const advice = 'Wait until some have ended, or cancel some';
  const tooMany = (message: string, limit: number) =>
    new BursarError('too_many_jobs', message, { transient: true, retryAfterSeconds, details: { limit } });
  if (counts.user > maxUnfinishedJobs.user) {
    const limit = maxUnfinishedJobs.user;
    return tooMany(`You have ${counts.user - 1} unfinished jobs, and the limit is ${limit}. ${advice}.`, limit);
  }
  if (counts.project > maxUnfinishedJobs.project) {
    const limit = maxUnfinishedJobs.project;
    const message =
      `The users of ${project.name} have ${counts.project - 1} unfinished jobs together, and the limit is ` +
      `${limit}. ${advice}, or use another project.`;
    return tooMany(message, limit);
  }
  return null;
}

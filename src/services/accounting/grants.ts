import { publicAccount } from '../../contract/ledger.ts';
import { availableBalance } from '../../domain/accounting/charge.ts';
import { assertNever, BursarError } from '../../domain/errors.ts';
import { publicUnits } from '../../domain/units.ts';
import type { Tx } from '../../store/database/handle.ts';
import type { Resource } from '../../store/database/tables.ts';
import { findMember } from '../../store/identity/members.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findJob } from '../../store/jobs/jobs.ts';
import { type ChangeDetails, findAccounts, lockAccount } from '../../store/ledger/accounts.ts';
import {
  addGrant,
  ensurePool,
  expireEndedPeriods,
  getChargedSeconds,
  getUnallocatedAmount,
  refundTime,
  withdrawGrant,
} from '../../store/ledger/grants.ts';
import { findCurrentPeriodId } from '../../store/ledger/periods.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import { type CommonDeps, type ProjectScope, requireProject } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { type GrantChange, insertQuotaEvents, toQuotaChanges } from './quota-events.ts';

export type GrantDeps = CommonDeps & Pick<ServiceDeps, 'userTopic'>;

/** Changes the grants of a project, and returns the changed accounts. Amounts are in the units of the API. */
export async function changeGrants(deps: GrantDeps, scope: ProjectScope, change: GrantChange, request: AdminRequest) {
  const project = await requireProject(deps, scope);
  const subject = `${project.hpc}/${project.name}`;
  const size = 'resource' in change ? publicUnits[change.resource].size : 1;
  const inLedgerUnits = { ...change, amount: change.amount * size };
  const notified = new Set<string>();
  const action = { ...request, name: `grant.${change.kind}`, subject, details: change };
  const accounts = await executeAdminAction(deps, action, async (tx, at) => {
    const changes = await toQuotaChanges(tx, project, inLedgerUnits);
    for (const userId of await insertQuotaEvents(tx, project, changes, change.reason, at)) notified.add(userId);
    return await changeGrant(tx, project, inLedgerUnits, request.actor.userId, at);
  });
  for (const userId of notified) deps.userTopic.publish(userId);
  return accounts.map(publicAccount);
}

/**
 * Changes the grants of a project, in the caller's transaction, and returns the changed accounts. The caps of a project
 * never add up to more than its pool, and used or held amounts are never withdrawn. Amounts are in seconds or bytes.
 */
export async function changeGrant(tx: Tx, project: ProjectRecord, change: GrantChange, actor: string, now: number) {
  const note = { actor, reason: change.reason, at: now };
  switch (change.kind) {
    case 'top_up':
    case 'withdraw':
      return change.user === null
        ? await changePool(tx, project, change, note)
        : await changeCap(tx, project, change.user, change, note);
    case 'transfer':
      return await transferGrant(tx, project, change, note);
    case 'refund':
      return await refundJob(tx, project, change, note);
    default:
      return assertNever(change);
  }
}

type AmountChange = Extract<GrantChange, { kind: 'top_up' | 'withdraw' }>;

const unallocated = 'the part of the pool that is not allocated to any member';

/** Changes the part of the pool that is not allocated to any member. */
async function changePool(
  tx: Tx,
  project: ProjectRecord,
  { kind, resource, amount }: AmountChange,
  note: ChangeDetails,
) {
  const poolId = await ensureCurrentPool(tx, project, resource, note.at);
  if (kind === 'top_up') await addGrant(tx, poolId, amount, kind, note);
  else {
    const available = await getUnallocatedAmount(tx, poolId);
    if (available < amount || !(await withdrawGrant(tx, poolId, amount, kind, note))) {
      throw exceedsAvailable(resource, amount, available, unallocated);
    }
  }
  return [await lockAccount(tx, poolId)];
}

/** Changes a member's cap: together with the pool (`new`), or from and to the unallocated part of the pool (`pool`). */
async function changeCap(
  tx: Tx,
  project: ProjectRecord,
  user: string,
  { kind, resource, amount, source }: AmountChange,
  note: ChangeDetails,
) {
  const period = await findCurrentPeriodId(tx, project.id, note.at);
  const { pool, cap } = await lockPoolAndCap(tx, project, period, user, resource);
  if (kind === 'top_up') {
    if (source === 'new') await addGrant(tx, pool.id, amount, kind, note);
    else {
      const available = await getUnallocatedAmount(tx, pool.id);
      if (available < amount) throw exceedsAvailable(resource, amount, available, unallocated);
    }
    await addGrant(tx, cap.id, amount, kind, note);
  } else {
    const isWithdrawn =
      (source === 'pool' || (await withdrawGrant(tx, pool.id, amount, kind, note))) &&
      (await withdrawGrant(tx, cap.id, amount, kind, note));
    if (!isWithdrawn) {
      // Usage of others beyond their caps can leave less in the pool than in this cap.
      const inPool = source === 'pool' ? Number.POSITIVE_INFINITY : availableBalance(pool);
      throw exceedsAvailable(resource, amount, Math.min(inPool, availableBalance(cap)), availableTo(user));
    }
  }
  return [await lockAccount(tx, pool.id), await lockAccount(tx, cap.id)];
}

async function transferGrant(
  tx: Tx,
  project: ProjectRecord,
  { from, to, resource, amount }: Extract<GrantChange, { kind: 'transfer' }>,
  note: ChangeDetails,
) {
  if (from === to) throw new BursarError('conflict', 'A transfer needs two different users.');
  // Read once: the next period may begin meanwhile, and time must not move from one period to another.
  const period = await findCurrentPeriodId(tx, project.id, note.at);
  const { cap: source } = await lockPoolAndCap(tx, project, period, from, resource);
  const { cap: destination } = await lockPoolAndCap(tx, project, period, to, resource);
  if (!(await withdrawGrant(tx, source.id, amount, 'transfer', note))) {
    throw exceedsAvailable(resource, amount, availableBalance(source), availableTo(from));
  }
  await addGrant(tx, destination.id, amount, 'transfer', note);
  return [await lockAccount(tx, source.id), await lockAccount(tx, destination.id)];
}

async function refundJob(
  tx: Tx,
  project: ProjectRecord,
  { job_id: jobId, amount }: Extract<GrantChange, { kind: 'refund' }>,
  note: ChangeDetails,
) {
  const job = await findJob(tx, jobId);
  if (job === undefined || job.project.id !== project.id) {
    throw new BursarError('job_unknown', `${project.name} has no job ${jobId}.`);
  }
  const { charged, refunded } = await getChargedSeconds(tx, job);
  if (amount > charged - refunded) {
    throw exceedsAvailable('time', amount, charged - refunded, `the charge of ${jobId} that is not refunded yet`);
  }
  const accounts = await refundTime(tx, job, amount, note);
  // Time that is refunded into a period that has ended expires at once.
  await expireEndedPeriods(tx, note.at);
  return await Promise.all(accounts.map(({ id }) => lockAccount(tx, id)));
}

/** Locks the pool first, as all transactions do, so that opposite transfers do not deadlock. */
async function lockPoolAndCap(
  tx: Tx,
  project: ProjectRecord,
  period: number | undefined,
  user: string,
  resource: Resource,
) {
  const member = await findMember(tx, user, project.id);
  const accounts = await findAccounts(tx, project.id, period ?? 0, user);
  if (member === undefined || accounts === undefined) {
    throw new BursarError('quota_unknown', `User ${user} has no quota in ${project.name}. Make them a member first.`);
  }
  const { timePool, timeCap, spacePool, spaceCap } = accounts;
  const [pool, cap] = resource === 'time' ? [timePool.id, timeCap.id] : [spacePool.id, spaceCap.id];
  return { pool: await lockAccount(tx, pool), cap: await lockAccount(tx, cap) };
}

async function ensureCurrentPool(tx: Tx, project: ProjectRecord, resource: Resource, now: number): Promise<number> {
  if (resource === 'space') return await ensurePool(tx, project.id, 'space');
  const period = await findCurrentPeriodId(tx, project.id, now);
  if (period === undefined) {
    throw new BursarError('conflict', `${project.name} has no current period. Open one first.`);
  }
  return await ensurePool(tx, project.id, 'time', period);
}

const availableTo = (user: string) => `the amount that user ${user} has available`;

/** The message uses the unit of the request. */
function exceedsAvailable(resource: Resource, amount: number, available: number, limit: string): BursarError {
  const { name, size } = publicUnits[resource];
  // Exact: the next request may ask for all of it.
  const text = (value: number) => `${value / size} ${name}`;
  return new BursarError('conflict', `${text(amount)} is more than ${limit}: ${text(Math.max(0, available))}.`);
}

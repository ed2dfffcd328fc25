import { availableBalance } from '../../domain/accounting/settlement.ts';
import { BursarError } from '../../domain/errors.ts';
import { publicUnits } from '../../domain/units.ts';
import type { Tx } from '../../store/database/handle.ts';
import type { Resource } from '../../store/database/tables.ts';
import { findMember } from '../../store/identity/members.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findJob } from '../../store/jobs/jobs.ts';
import { type Account, type AccountSet, findAccounts, lockAccount } from '../../store/ledger/accounts.ts';
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

/** Amounts are seconds of time, or bytes of space. */
export type GrantAct = { reason: string } & (
  | { kind: 'top_up' | 'withdraw'; user: string | null; resource: Resource; amount: number; source: 'new' | 'pool' }
  | { kind: 'transfer'; from: string; to: string; resource: Resource; amount: number }
  | { kind: 'refund'; jobId: string; amount: number }
);

/**
 * Carries out one administrative movement, inside the caller's transaction. The caps of a project never promise more
 * than its pool holds, and nothing that is used or held is ever taken away.
 */
export async function moveGrant(tx: Tx, project: ProjectRecord, act: GrantAct, actor: string, now: number) {
  const note = { actor, reason: act.reason, at: now };
  switch (act.kind) {
    case 'top_up':
    case 'withdraw':
      return act.user === null
        ? await changePool(tx, project, act, note)
        : await changeCap(tx, project, act.user, act, note);
    case 'transfer':
      return await transfer(tx, project, act, note);
    case 'refund':
      return await refund(tx, project, act, note);
    default: {
      const forgotten: never = act;
      throw new Error(`unknown act ${String(forgotten)}`);
    }
  }
}

type Note = { actor: string; reason: string; at: number };
type Change = Extract<GrantAct, { kind: 'top_up' | 'withdraw' }>;

/** The reserve of the project, which is promised to nobody yet, grows or shrinks. */
async function changePool(tx: Tx, project: ProjectRecord, { kind, resource, amount }: Change, note: Note) {
  const poolId = await poolOf(tx, project, resource, note.at);
  if (kind === 'top_up') await addGrant(tx, poolId, amount, kind, note);
  else {
    const free = await getUnallocatedAmount(tx, poolId);
    if (free < amount || !(await withdrawGrant(tx, poolId, amount, kind, note))) {
      throw tooMuch(resource, amount, free, 'the part of the pool that is promised to nobody');
    }
  }
  return [await lockAccount(tx, poolId)];
}

/** A member's cap grows or shrinks: together with the pool (`new`), or out of and back into its reserve (`pool`). */
async function changeCap(
  tx: Tx,
  project: ProjectRecord,
  user: string,
  { kind, resource, amount, source }: Change,
  note: Note,
) {
  const { pool, cap } = await sides(tx, project, user, resource, note.at);
  if (kind === 'top_up') {
    if (source === 'new') await addGrant(tx, pool.id, amount, kind, note);
    else if ((await getUnallocatedAmount(tx, pool.id)) < amount) {
      throw tooMuch(
        resource,
        amount,
        await getUnallocatedAmount(tx, pool.id),
        'the part of the pool that is promised to nobody',
      );
    }
    await addGrant(tx, cap.id, amount, kind, note);
  } else {
    const taken =
      (source === 'pool' || (await withdrawGrant(tx, pool.id, amount, kind, note))) &&
      (await withdrawGrant(tx, cap.id, amount, kind, note));
    if (!taken) throw tooMuch(resource, amount, availableBalance(cap), `what user ${user} has available`);
  }
  return [await lockAccount(tx, pool.id), await lockAccount(tx, cap.id)];
}

async function transfer(
  tx: Tx,
  project: ProjectRecord,
  { from, to, resource, amount }: Extract<GrantAct, { kind: 'transfer' }>,
  note: Note,
) {
  if (from === to) throw new BursarError('conflict', 'A transfer needs two different users.');
  const giver = (await sides(tx, project, from, resource, note.at)).cap;
  const taker = (await sides(tx, project, to, resource, note.at)).cap;
  // In one order, whoever gives to whom: two who waited for each other would wait for long.
  for (const id of [giver.id, taker.id].sort((a, b) => a - b)) await lockAccount(tx, id);
  if (!(await withdrawGrant(tx, giver.id, amount, 'transfer', note))) {
    throw tooMuch(resource, amount, availableBalance(giver), `what user ${from} has available`);
  }
  await addGrant(tx, taker.id, amount, 'transfer', note);
  return [await lockAccount(tx, giver.id), await lockAccount(tx, taker.id)];
}

async function refund(
  tx: Tx,
  project: ProjectRecord,
  { jobId, amount }: Extract<GrantAct, { kind: 'refund' }>,
  note: Note,
) {
  const job = await findJob(tx, jobId);
  if (job === undefined || job.project.id !== project.id) {
    throw new BursarError('job_unknown', `${project.name} has no job ${jobId}.`);
  }
  const { charged, refunded } = await getChargedSeconds(tx, job);
  if (amount > charged - refunded) {
    throw tooMuch('time', amount, charged - refunded, `what ${jobId} was charged and has not been given back`);
  }
  const accounts = await refundTime(tx, job, amount, note);
  // What comes back into a period that has ended is gone with it.
  await expireEndedPeriods(tx, note.at);
  return await Promise.all(accounts.map(({ id }) => lockAccount(tx, id)));
}

async function sides(tx: Tx, project: ProjectRecord, user: string, resource: Resource, now: number) {
  const period = await findCurrentPeriodId(tx, project.id, now);
  const member = await findMember(tx, user, project.id);
  const accounts: AccountSet | undefined = await findAccounts(tx, project.id, period ?? 0, user);
  if (member === undefined || accounts === undefined) {
    throw new BursarError('quota_unknown', `User ${user} has no quota in ${project.name}. Make them a member first.`);
  }
  const [pool, cap]: [Account, Account] =
    resource === 'time' ? [accounts.timePool, accounts.timeCap] : [accounts.spacePool, accounts.spaceCap];
  return { pool, cap };
}

async function poolOf(tx: Tx, project: ProjectRecord, resource: Resource, now: number): Promise<number> {
  if (resource === 'space') return await ensurePool(tx, project.id, 'space');
  const period = await findCurrentPeriodId(tx, project.id, now);
  if (period === undefined) {
    throw new BursarError('conflict', `${project.name} has no period now. Open one first.`);
  }
  return await ensurePool(tx, project.id, 'time', period);
}

/** In the unit in which the amount was asked for. */
function tooMuch(resource: Resource, amount: number, free: number, what: string): BursarError {
  const { size } = publicUnits[resource];
  return new BursarError('conflict', `${amount / size} is more than ${what}: ${Math.max(0, free) / size}.`);
}

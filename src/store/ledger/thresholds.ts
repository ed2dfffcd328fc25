import { thresholdReached } from '../../domain/accounting/threshold.ts';
import type { Tx } from '../database/handle.ts';
import { insertEvents } from '../events/events.ts';
import { listMembers } from '../identity/members.ts';
import { type Account, poolHolder } from './accounts.ts';

/**
 * Tells whom it concerns when the use of an account crosses a threshold: once a crossing, because what was told is
 * kept with the account, in the same transaction. When a top-up takes it back below, it can be crossed again.
 */
export async function publishThreshold(tx: Tx, account: Account, now: number): Promise<void> {
  const reached = thresholdReached(account);
  if (reached === account.alerted) return;
  await tx.updateTable('accounts').set({ alerted: reached }).where('id', '=', account.id).execute();
  if (reached < account.alerted) return;
  const project = await tx
    .selectFrom('projects')
    .select(['hpc', 'name'])
    .where('id', '=', account.projectId)
    .executeTakeFirstOrThrow();
  const data = {
    hpc: project.hpc,
    project_name: project.name,
    resource: account.resource,
    account: account.holder === poolHolder ? 'pool' : 'cap',
    percent: reached,
  };
  await insertEvents(tx, await listAffectedUsers(tx, account), { job: null, kind: 'quota.threshold', data, at: now });
}

/** The holder of a cap; of a pool, everybody who shares it. */
async function listAffectedUsers(tx: Tx, account: Account): Promise<string[]> {
  if (account.holder !== poolHolder) return [account.holder];
  const members = await listMembers(tx, account.projectId);
  return members.filter((member) => member.status === 'active').map((member) => member.userId);
}

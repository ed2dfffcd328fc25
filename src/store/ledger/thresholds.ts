import { thresholdReached } from '../../domain/accounting/charge.ts';
import type { Tx } from '../database/handle.ts';
import { insertEvents } from '../events/events.ts';
import { listMembers } from '../identity/members.ts';
import { getProject } from '../identity/projects.ts';
import { type Account, poolHolder } from './accounts.ts';

/**
 * Publishes an event when the use of an account crosses a threshold. The published threshold is stored with the account in
 * the same transaction, so that each crossing is published once. After a top-up it can be crossed again.
 */
export async function publishThreshold(tx: Tx, account: Account, now: number): Promise<void> {
  const reached = thresholdReached(account);
  if (reached === account.alerted) return;
  await tx.updateTable('accounts').set({ alerted: reached }).where('id', '=', account.id).execute();
  if (reached < account.alerted) return;
  const { hpc, name } = await getProject(tx, account.projectId);
  const data = {
    hpc,
    project_name: name,
    resource: account.resource,
    account: account.holder === poolHolder ? 'pool' : 'cap',
    percent: reached,
  };
  await insertEvents(tx, await listAffectedUsers(tx, account), { job: null, kind: 'quota.threshold', data, at: now });
}

/** Returns the holder of a cap, or the active members who share a pool. */
async function listAffectedUsers(tx: Tx, account: Account): Promise<string[]> {
  if (account.holder !== poolHolder) return [account.holder];
  const members = await listMembers(tx, account.projectId);
  return members.filter((member) => member.status === 'active').map((member) => member.userId);
}

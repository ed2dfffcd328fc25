import { assertNever } from '../../domain/errors.ts';
import { publicUnits } from '../../domain/units.ts';
import type { Tx } from '../../store/database/handle.ts';
import type { Resource } from '../../store/database/tables.ts';
import { insertEvents } from '../../store/events/events.ts';
import { listMembers } from '../../store/identity/members.ts';
import type { ProjectRecord } from '../../store/identity/projects.ts';
import { findJob } from '../../store/jobs/jobs.ts';

export type GrantChange = { reason: string } & (
  | { kind: 'top_up' | 'withdraw'; user: string | null; resource: Resource; amount: number; source: 'new' | 'pool' }
  | { kind: 'transfer'; from: string; to: string; resource: Resource; amount: number }
  | { kind: 'refund'; job_id: string; amount: number }
);

/** A change of the quotas of some users. */
interface QuotaChange {
  userIds: readonly string[];
  resource: Resource;
  account: 'pool' | 'cap';
  /** In seconds or bytes; negative if the quota becomes smaller. */
  change: number;
}

/**
 * Inserts the events of changes of quotas, and returns the users concerned. Call it before the changes, in the same
 * transaction: submissions lock the row of the user before the accounts, and the same order avoids deadlocks.
 */
export async function insertQuotaEvents(
  tx: Tx,
  project: ProjectRecord,
  changes: readonly QuotaChange[],
  reason: string,
  at: number,
): Promise<string[]> {
  for (const { userIds, resource, account, change } of changes) {
    const amount = change / publicUnits[resource].size;
    const data = { hpc: project.hpc, project_name: project.name, resource, account, change: amount, reason };
    await insertEvents(tx, userIds, { job: null, kind: 'quota.changed', data, at });
  }
  return changes.flatMap(({ userIds }) => userIds);
}

export async function toQuotaChanges(tx: Tx, project: ProjectRecord, change: GrantChange): Promise<QuotaChange[]> {
  switch (change.kind) {
    case 'top_up':
    case 'withdraw': {
      const { user, resource, kind } = change;
      const amount = kind === 'top_up' ? change.amount : -change.amount;
      return user === null
        ? [{ userIds: await listActiveMembers(tx, project), resource, account: 'pool', change: amount }]
        : [{ userIds: [user], resource, account: 'cap', change: amount }];
    }
    case 'transfer': {
      const { from, to, resource, amount } = change;
      return [
        { userIds: [from], resource, account: 'cap', change: -amount },
        { userIds: [to], resource, account: 'cap', change: amount },
      ];
    }
    case 'refund': {
      // An unknown job is refused by the change itself.
      const job = await findJob(tx, change.job_id);
      const userIds = job === undefined ? [] : [job.owner];
      return [{ userIds, resource: 'time', account: 'cap', change: change.amount }];
    }
    default:
      return assertNever(change);
  }
}

export async function listActiveMembers(tx: Tx, { id }: ProjectRecord): Promise<string[]> {
  return (await listMembers(tx, id)).filter(({ status }) => status === 'active').map(({ userId }) => userId);
}

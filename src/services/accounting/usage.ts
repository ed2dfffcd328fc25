import type { Static } from 'typebox';
import type { UsageSchema } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import type { Db } from '../../store/database/handle.ts';
import { listUsageOfAllUsers, listUsageOfUser, type UsageRecord } from '../../store/ledger/monthly-usage.ts';

type Usage = Static<typeof UsageSchema>;

/** Usage by project and month, of one user or, without a user, of everybody. In batches, because it may be long. */
export async function readUsage(db: Db, userId: string | undefined): Promise<Iterable<Usage[]>> {
  const batches = userId === undefined ? await listUsageOfAllUsers(db) : [await listUsageOfUser(db, userId)];
  return batches.values().map((batch) => batch.map(toUsage));
}

const toUsage = ({ user, hpc, project, month, jobs, timeSeconds }: UsageRecord): Usage => ({
  user,
  project_hpc: publicSystemName(hpc),
  project_name: project,
  month,
  jobs,
  time_seconds: timeSeconds,
});

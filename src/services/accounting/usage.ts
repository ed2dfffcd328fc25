import type { Static } from 'typebox';
import type { UsageSchema } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import { listUsageOfAllUsers, listUsageOfUser, type UsageRecord } from '../../store/ledger/monthly-usage.ts';
import { type Owner, type PathScope, type ReadDeps, requireScope } from '../scope.ts';

type Usage = Static<typeof UsageSchema>;

/**
 * Usage by project and month, of one user or, without a user, of everybody, on all systems or in the scope. In batches,
 * because it may be long.
 */
export async function readUsage(deps: ReadDeps, owner: Owner, scope: PathScope): Promise<Iterable<Usage[]>> {
  const { db } = deps;
  const project = await requireScope(deps, scope);
  const batches = owner === undefined ? await listUsageOfAllUsers(db, project?.id) : [await listUsageOfUser(db, owner)];
  const isInScope = (record: UsageRecord) =>
    (scope.hpc ?? record.hpc) === record.hpc && (scope.project ?? record.project) === record.project;
  return batches.values().map((batch) => batch.filter(isInScope).map(toUsage));
}

const toUsage = ({ user, hpc, project, month, jobs, timeSeconds }: UsageRecord): Usage => ({
  user,
  project_hpc: publicSystemName(hpc),
  project_name: project,
  month,
  jobs,
  time_seconds: timeSeconds,
});

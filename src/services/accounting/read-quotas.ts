import { toQuotaJson } from '../../contract/ledger.ts';
import { BursarError } from '../../domain/errors.ts';
import { findQuotas, getQuotasVersion, readQuotaRows, toQuotas, toQuotasVersion } from '../../store/ledger/quotas.ts';
import { type CommonDeps, type PathScope, type ProjectScope, requireScope, requireSystem } from '../scope.ts';
import type { VersionedJson } from '../versioned.ts';

/** The quotas of one user or, without a user, of everybody, as a JSON array. */
export async function listQuotas(
  deps: CommonDeps,
  userId: string | undefined,
  scope: PathScope,
): Promise<VersionedJson> {
  const { db, now } = deps;
  if (userId !== undefined) {
    const rows = await readRows(deps, userId, scope);
    return {
      version: toQuotasVersion(rows),
      body: async () => ({ json: `[${toQuotas(rows).map(toQuotaJson).join(',')}]` }),
    };
  }
  await requireScope(deps, scope);
  const at = now();
  return {
    // Everybody's quotas are many rows.
    version: await getQuotasVersion(db, at),
    body: async () => ({ json: `[${(await findQuotas(db, scope, at)).map(toQuotaJson).join(',')}]` }),
  };
}

/** The quota of a user in one project. */
export async function readQuota(deps: CommonDeps, userId: string, scope: ProjectScope): Promise<VersionedJson> {
  const rows = await readRows(deps, userId, scope);
  if (rows.length === 0) throw quotaUnknown(userId, scope.project);
  return {
    version: toQuotasVersion(rows),
    body: async () => ({ json: toQuotas(rows).map(toQuotaJson).join(',') }),
  };
}

async function readRows(deps: CommonDeps, userId: string, scope: PathScope) {
  if (scope.hpc !== undefined) requireSystem(deps.systems, scope.hpc);
  const rows = await readQuotaRows(deps.db, { userId, ...scope }, deps.now());
  // Only an empty list needs the check: a quota implies that its project exists.
  if (rows.length === 0) await requireScope(deps, scope);
  return rows;
}

export function quotaUnknown(userId: string, project: string): BursarError {
  const message = `User ${userId} has no quota in ${project}. An administrator can make them a member.`;
  return new BursarError('quota_unknown', message);
}

import { toQuotaJson } from '../../contract/ledger.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { findQuotas, getQuotasVersion, readQuotaRows, toQuotas, toQuotasVersion } from '../../store/ledger/quotas.ts';
import { type PathScope, requireScope, requireScopeSystem, type Systems } from '../scope.ts';
import type { VersionedJson } from '../versioned.ts';

/** The quotas of one user or, without a user, of everybody, as a JSON array. */
export async function listQuotas(
  db: Db,
  systems: Systems,
  userId: string | undefined,
  scope: PathScope,
  now: number,
): Promise<VersionedJson> {
  if (userId === undefined) return await listAllQuotas(db, systems, scope, now);
  requireScopeSystem(systems, scope);
  const rows = await readQuotaRows(db, { userId, ...scope }, now);
  // Only an empty list needs the check: a quota implies that its project exists.
  if (rows.length === 0) await requireScope(db, systems, scope);
  return {
    version: toQuotasVersion(rows),
    body: async () => ({ json: `[${toQuotas(rows).map(toQuotaJson).join(',')}]` }),
  };
}

/** Everybody's quotas are many rows, so their version is read first. */
async function listAllQuotas(db: Db, systems: Systems, scope: PathScope, now: number): Promise<VersionedJson> {
  await requireScope(db, systems, scope);
  return {
    version: await getQuotasVersion(db, now),
    body: async () => ({ json: `[${(await findQuotas(db, scope, now)).map(toQuotaJson).join(',')}]` }),
  };
}

/** The quota of a user in one project. */
export async function readQuota(
  db: Db,
  systems: Systems,
  userId: string,
  scope: Required<PathScope>,
  now: number,
): Promise<VersionedJson> {
  requireScopeSystem(systems, scope);
  const rows = await readQuotaRows(db, { userId, ...scope }, now);
  if (rows.length === 0) {
    await requireScope(db, systems, scope);
    throw new BursarError(
      'quota_unknown',
      `User ${userId} has no quota in ${scope.project}. An administrator can make them a member.`,
    );
  }
  return {
    version: toQuotasVersion(rows),
    body: async () => ({ json: toQuotas(rows).map(toQuotaJson).join(',') }),
  };
}

import { toQuotaJson } from '../../contract/quota.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { userExists } from '../../store/identity/users.ts';
import {
  findQuotas,
  getQuotasVersion,
  type QuotaRow,
  readQuotaRows,
  toQuotas,
  toQuotasVersion,
} from '../../store/ledger/quotas.ts';
import type { Actor } from '../identity/actor.ts';
import { type PathScope, requireScope, requireScopeSystem, type Systems } from '../scope.ts';
import type { VersionedJson } from '../versioned.ts';
import { requireAdmin } from './admin-actions.ts';

/** Quotas in a place, of one user or (without one) of everybody, as a JSON array; unless the version is known. */
export async function listQuotas(
  db: Db,
  systems: Systems,
  userId: string | undefined,
  place: PathScope,
  now: number,
  knownVersion: string | undefined,
): Promise<VersionedJson> {
  if (userId === undefined) return await listAll(db, systems, place, now, knownVersion);
  requireScopeSystem(systems, place);
  const found = await readQuotaRows(db, { userId, ...place }, now);
  // Where there are quotas, there is a project.
  if (found.rows.length === 0) await requireScope(db, systems, place);
  return versioned(found, knownVersion, (jsons) => `[${jsons}]`);
}

/** Of everybody there are many: first a look whether any has changed. */
async function listAll(
  db: Db,
  systems: Systems,
  place: PathScope,
  now: number,
  knownVersion: string | undefined,
): Promise<VersionedJson> {
  await requireScope(db, systems, place);
  const version = await getQuotasVersion(db, now);
  // When the next period begins or ends would take another look.
  const goodUntil = 0;
  if (version === knownVersion) return { version, goodUntil, answer: null };
  return { version, goodUntil, answer: { json: `[${(await findQuotas(db, place, now)).map(toQuotaJson).join(',')}]` } };
}

/** A user's quota in one project, as JSON; unless the version is known. */
export async function readQuota(
  db: Db,
  systems: Systems,
  userId: string,
  place: Required<PathScope>,
  now: number,
  knownVersion: string | undefined,
): Promise<VersionedJson> {
  requireScopeSystem(systems, place);
  const found = await readQuotaRows(db, { userId, ...place }, now);
  if (found.rows.length === 0) {
    await requireScope(db, systems, place);
    throw new BursarError(
      'quota_unknown',
      `User ${userId} has no quota in ${place.project}. An administrator can make them a member.`,
    );
  }
  return versioned(found, knownVersion, (jsons) => jsons);
}

function versioned(
  { rows, goodUntil }: { rows: readonly QuotaRow[]; goodUntil: number },
  knownVersion: string | undefined,
  jsonOf: (jsons: string) => string,
): VersionedJson {
  const version = toQuotasVersion(rows);
  if (version === knownVersion) return { version, goodUntil, answer: null };
  return { version, goodUntil, answer: { json: jsonOf(toQuotas(rows).map(toQuotaJson).join(',')) } };
}

/** Lets administrators through to a user who exists. */
export async function requireAdminAndUser(db: Db, actor: Actor, userId: string): Promise<void> {
  requireAdmin(actor);
  if (!(await userExists(db, userId)))
    throw new BursarError('user_unknown', 'There is no user of that identifier. GET /admin/users/ lists them.');
}

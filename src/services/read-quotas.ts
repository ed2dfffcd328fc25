import { quotaJson } from '../contract/quota.ts';
import { BursarError } from '../domain/errors.ts';
import { findQuotas } from '../store/quotas.ts';
import type { Db } from '../store/tables.ts';
import { userExists } from '../store/users.ts';
import type { Actor } from './actor.ts';
import { refuseOthers } from './administration.ts';
import { checkPlace, type Place, projectNamed, type Systems } from './places.ts';

/** Quotas in a place, of one user or (without one) of everybody, as the JSON array that is sent. */
export async function listQuotas(
  db: Db,
  systems: Systems,
  userId: string | undefined,
  place: Place,
  now: number,
): Promise<string> {
  await checkPlace(db, systems, place);
  const quotas = await findQuotas(db, { ...(userId === undefined ? {} : { userId }), ...place }, now);
  return `[${quotas.map(quotaJson).join(',')}]`;
}

/** A user's quota in one project, as JSON. */
export async function readQuota(
  db: Db,
  systems: Systems,
  userId: string,
  place: Required<Place>,
  now: number,
): Promise<string> {
  await projectNamed(db, systems, place.hpc, place.project);
  const [quota] = await findQuotas(db, { userId, ...place }, now);
  if (quota === undefined)
    throw new BursarError(
      'quota_unknown',
      `User ${userId} has no quota in ${place.project}. An administrator can make them a member.`,
    );
  return quotaJson(quota);
}

/** Lets administrators through to a user who exists. */
export async function checkAdministrator(db: Db, actor: Actor, userId: string): Promise<void> {
  refuseOthers(actor);
  if (!(await userExists(db, userId)))
    throw new BursarError('user_unknown', 'There is no user of that identifier. GET /admin/users/ lists them.');
}

import { quotaJson } from '../contract/quota.ts';
import { BursarError } from '../domain/errors.ts';
import { findMember } from '../store/members.ts';
import { findQuotas } from '../store/quotas.ts';
import type { Db } from '../store/tables.ts';
import { userExists } from '../store/users.ts';
import { quotasVersion } from '../store/versions.ts';
import type { Actor } from './actor.ts';
import { refuseOthers } from './administration.ts';
import { checkPlace, type Place, projectNamed, type Systems } from './places.ts';
import type { Versioned } from './versioned.ts';

/** Quotas in a place, of one user or (without one) of everybody, as the JSON array that is sent. */
export async function listQuotas(
  db: Db,
  systems: Systems,
  userId: string | undefined,
  place: Place,
  now: number,
): Promise<Versioned> {
  await checkPlace(db, systems, place);
  const read = async () => {
    const quotas = await findQuotas(db, { ...(userId === undefined ? {} : { userId }), ...place }, now);
    return { json: `[${quotas.map(quotaJson).join(',')}]` };
  };
  return { version: await quotasVersion(db, userId, now), read };
}

/** A user's quota in one project, as JSON. */
export async function readQuota(
  db: Db,
  systems: Systems,
  userId: string,
  place: Required<Place>,
  now: number,
): Promise<Versioned> {
  const project = await projectNamed(db, systems, place.hpc, place.project);
  if ((await findMember(db, userId, project.id)) === undefined)
    throw new BursarError(
      'quota_unknown',
      `User ${userId} has no quota in ${place.project}. An administrator can make them a member.`,
    );
  const read = async () => ({ json: (await findQuotas(db, { userId, ...place }, now)).map(quotaJson).join() });
  return { version: await quotasVersion(db, userId, now), read };
}

/** Lets administrators through to a user who exists. */
export async function checkAdministrator(db: Db, actor: Actor, userId: string): Promise<void> {
  refuseOthers(actor);
  if (!(await userExists(db, userId)))
    throw new BursarError('user_unknown', 'There is no user of that identifier. GET /admin/users/ lists them.');
}

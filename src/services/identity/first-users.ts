import { noLimit } from '../../store/identity/tokens.ts';
import { listUserIds } from '../../store/identity/users.ts';
import { commandLineActor } from './actor.ts';
import { automaticActor } from './enrolment.ts';
import { type ProvisionDeps, provisionToken } from './provision-token.ts';
import { createSignInLink } from './sign-in-links.ts';

/** A user for trying Bursar out. */
export interface DemonstrationUser {
  userId: string;
  token: string;
  /** The path of a link to sign in with. */
  signInPath: string;
}

/**
 * `demonstration`: an administrator and an ordinary user were created. `none`: there are no users, and the operator creates
 * the first one. `known`: this is not the first start.
 */
export type FirstUsers =
  | { kind: 'demonstration'; admin: DemonstrationUser; user: DemonstrationUser }
  | { kind: 'none' }
  | { kind: 'known' };

/** Creates users for a demonstration if there are no users. Their tokens never expire: a real site has users of its own. */
export async function prepareFirstUsers(
  deps: ProvisionDeps,
  isDemonstration: boolean,
  now: number,
): Promise<FirstUsers> {
  if ((await listUserIds(deps.db)).length > 0) return { kind: 'known' };
  if (!isDemonstration) return { kind: 'none' };
  const actor = commandLineActor(automaticActor);
  const create = async (userId: string, role: 'administrator' | 'user') => {
    const request = { actor, userId, role, limit: noLimit, name: 'first start', expiresAt: null };
    const token = await provisionToken(deps, request, now);
    return { userId, token, signInPath: await createSignInLink(deps.db, userId, actor, now) };
  };
  const admin = await create('300001', 'administrator');
  return { kind: 'demonstration', admin, user: await create('301330', 'user') };
}

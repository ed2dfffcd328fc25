import type { Db } from '../../store/database/handle.ts';
import { noLimit } from '../../store/identity/tokens.ts';
import { listUserIds } from '../../store/identity/users.ts';
import { commandLineActor } from './actor.ts';
import { automaticActor } from './enrolment.ts';
import { type ProvisionDeps, provisionToken } from './provision-token.ts';
import { createSignInLink } from './sign-in-links.ts';

export interface FirstUser {
  userId: string;
  token: string;
  /** The path of a link to sign in with. */
  signInPath: string;
}

/** Creates an administrator and an ordinary user if there are no users; returns null otherwise. */
export async function createFirstUsers(
  deps: ProvisionDeps,
  now: number,
): Promise<{ admin: FirstUser; user: FirstUser } | null> {
  if (await hasUsers(deps.db)) return null;
  const actor = commandLineActor(automaticActor);
  const create = async (userId: string, role: 'administrator' | 'user') => {
    const request = { actor, userId, role, limit: noLimit, name: 'first start', expiresAt: null };
    const token = await provisionToken(deps, request, now);
    return { userId, token, signInPath: await createSignInLink(deps.db, userId, actor, now) };
  };
  return { admin: await create('300001', 'administrator'), user: await create('301330', 'user') };
}

const hasUsers = async (db: Db) => (await listUserIds(db)).length > 0;

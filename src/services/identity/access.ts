import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { userExists } from '../../store/identity/users.ts';
import type { Actor } from './actor.ts';

export interface AccessService {
  requireAdmin(actor: Actor): void;
  /** Throws unless the actor is an administrator and the user exists. */
  requireAdminAndUser(actor: Actor, userId: string): Promise<void>;
}

export function createAccessService(db: Db): AccessService {
  return {
    requireAdmin,
    async requireAdminAndUser(actor, userId) {
      requireAdmin(actor);
      await requireUser(db, userId);
    },
  };
}

export function requireAdmin(actor: Actor): void {
  if (actor.admin) return;
  throw new BursarError('forbidden', 'This path is for administrators. Use a token with the administrator role.');
}

export async function requireUser(db: Db, userId: string): Promise<void> {
  if (await userExists(db, userId)) return;
  throw new BursarError('user_unknown', 'There is no user with this identifier. GET /admin/users/ lists all users.');
}

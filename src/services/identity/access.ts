import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { findMember } from '../../store/identity/members.ts';
import { findProject } from '../../store/identity/projects.ts';
import { findUser, type UserRecord } from '../../store/identity/users.ts';
import type { PathScope } from '../scope.ts';
import { userDisabled } from './refused-access.ts';

export interface AccessService {
  /** Returns the id. Throws if there is no such user. */
  requireUser(userId: string): Promise<string>;
  /** Whether a user manages a project. */
  isManager(userId: string, project: Required<PathScope>): Promise<boolean>;
}

export function createAccessService(db: Db): AccessService {
  return {
    requireUser: async (userId) => (await requireUser(db, userId)).id,
    async isManager(userId, { hpc, project: name }) {
      const project = await findProject(db, hpc, name);
      const member = project && (await findMember(db, userId, project.id));
      return member?.status === 'active' && member.role === 'manager';
    },
  };
}

export async function requireUser(db: Db, userId: string): Promise<UserRecord> {
  const user = await findUser(db, userId);
  if (user !== undefined) return user;
  const message = 'There is no user with this identifier. GET /admin/users/ and "bursar user list" list all users.';
  throw new BursarError('user_unknown', message);
}

/** Throws if there is no such user, or if the user is disabled. */
export async function requireEnabledUser(db: Db, userId: string): Promise<void> {
  if ((await requireUser(db, userId)).disabledAt !== null) throw userDisabled(userId);
}

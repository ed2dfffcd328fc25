import type { FastifyRequest } from 'fastify';
import type { TProperties } from 'typebox';
import type { Reach } from '../../domain/identity/policy.ts';
import type { AccessService } from '../../services/identity/access.ts';
import { actorOf } from './authentication.ts';
import { queryUserId, userIdOf, userParam } from './path-params.ts';

/** The owner whose resources a family of paths shows: the caller, one user, all users, or any user. */
export interface OwnerScope {
  /** The start of its paths. */
  prefix: string;
  tag: string;
  /** For summaries: "Your jobs", "Jobs of a user", "Jobs of all users", "Job of any user". */
  describe(resources: string): string;
  /** For operation ids: `listJobs`, `listJobsOfUser`. */
  operationId(name: string): string;
  params: TProperties;
  reach: Reach;
  /** The user; undefined for all users. Throws if there is no such user. */
  ownerOf(request: FastifyRequest): Promise<string | undefined>;
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * Paths such as `/quotas/…`, `/admin/quotas/{user_id}/…` and `/admin/quotas/`. A resource must not use both of the latter
 * with path parameters: `/admin/quotas/{hpc}/` would have the shape of `/admin/quotas/{user_id}/`.
 */
export function ownerScopes(base: string, access: AccessService) {
  const own: OwnerScope = {
    prefix: `/${base}/`,
    tag: base,
    describe: (resources) => `Your ${resources}`,
    operationId: (name) => name,
    params: {},
    reach: 'own',
    ownerOf: async (request) => actorOf(request).userId,
  };
  const ofUser: OwnerScope = {
    prefix: `/admin/${base}/:user_id/`,
    tag: 'administration',
    describe: (resources) => `${capitalize(resources)} of a user`,
    operationId: (name) => `${name}OfUser`,
    params: userParam,
    reach: 'others',
    ownerOf: async (request) => {
      const userId = userIdOf(request);
      await access.requireUser(userId);
      return userId;
    },
  };
  const allUsers: OwnerScope = {
    prefix: `/admin/${base}/`,
    tag: 'administration',
    describe: (resources) => `${capitalize(resources)} of all users`,
    operationId: (name) => `${name}OfAllUsers`,
    params: {},
    reach: 'others',
    ownerOf: async () => undefined,
  };
  /** All users, or the one in the query. */
  const byQuery: OwnerScope = {
    ...allUsers,
    ownerOf: async (request) => {
      const userId = queryUserId(request);
      if (userId !== undefined) await access.requireUser(userId);
      return userId;
    },
  };
  /** For one resource, whoever owns it. */
  const anyUser: OwnerScope = {
    ...allUsers,
    describe: (resources) => `${capitalize(resources)} of any user`,
    operationId: (name) => `${name}OfAnyUser`,
  };
  return { own, ofUser, allUsers, byQuery, anyUser };
}

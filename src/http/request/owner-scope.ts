import type { FastifyRequest } from 'fastify';
import Type, { type TProperties } from 'typebox';
import type { AccessService } from '../../services/identity/access.ts';
import { actorOf } from './authentication.ts';

/** The owner whose resources a family of paths shows: the caller, one user, or all users. */
export interface OwnerScope {
  /** The start of its paths. */
  prefix: string;
  tag: string;
  /** For summaries: "Your jobs", "Jobs of a user", "Jobs of all users". */
  describe(resources: string): string;
  params: TProperties;
  /** The user; undefined for all users. Throws unless the caller may see these resources. */
  ownerOf(request: FastifyRequest): Promise<string | undefined>;
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Paths such as `/jobs/…`, `/admin/jobs/{user_id}/…` and `/admin/jobs/…`. A first segment of digits is a user. */
export function ownerScopes(base: string, access: AccessService) {
  const own: OwnerScope = {
    prefix: `/${base}/`,
    tag: base,
    describe: (resources) => `Your ${resources}`,
    params: {},
    ownerOf: async (request) => actorOf(request).userId,
  };
  const ofUser: OwnerScope = {
    prefix: `/admin/${base}/:user_id(^\\d+$)/`,
    tag: 'administration',
    describe: (resources) => `${capitalize(resources)} of a user`,
    params: { user_id: Type.String({ description: 'The user, in digits.' }) },
    ownerOf: async (request) => {
      const { user_id: userId = '' } = request.params as { user_id?: string };
      await access.requireAdminAndUser(actorOf(request), userId);
      return userId;
    },
  };
  const allUsers: OwnerScope = {
    prefix: `/admin/${base}/`,
    tag: 'administration',
    describe: (resources) => `${capitalize(resources)} of all users`,
    params: {},
    ownerOf: async (request) => {
      access.requireAdmin(actorOf(request));
      return undefined;
    },
  };
  return { own, ofUser, allUsers };
}

import type { FastifyRequest } from 'fastify';
import Type, { type TProperties } from 'typebox';
import type { Actor } from '../../services/identity/actor.ts';
import { actorOf } from './authentication.ts';

/** Whose things a family of paths shows: one's own, those of any user, or everybody's. */
export interface OwnerScope {
  /** In front of its paths. */
  prefix: string;
  tag: string;
  /** For summaries: "Your jobs", "Jobs of a user", "Jobs of everybody". */
  describe(things: string): string;
  params: TProperties;
  /** The user whose things are meant; undefined for everybody's. Throws unless the caller may see them. */
  ownerOf(request: FastifyRequest): Promise<string | undefined>;
}

export interface OwnerScopeServices {
  /** Throws unless the actor is an administrator. */
  requireAdmin(actor: Actor): void;
  /** Throws unless the actor is an administrator and the user exists. */
  requireAdminAndUser(actor: Actor, userId: string): Promise<void>;
}

const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Paths such as `/jobs/…`, `/admin/jobs/{user_id}/…` and `/admin/jobs/…`; a first segment of digits is a user. */
export function ownerScopes(base: string, services: OwnerScopeServices) {
  const own: OwnerScope = {
    prefix: `/${base}/`,
    tag: base,
    describe: (things) => `Your ${things}`,
    params: {},
    ownerOf: async (request) => actorOf(request).userId,
  };
  const ofUser: OwnerScope = {
    prefix: `/admin/${base}/:user_id(^\\d+$)/`,
    tag: 'administration',
    describe: (things) => `${capitalised(things)} of a user`,
    params: { user_id: Type.String({ description: 'The user, in digits.' }) },
    ownerOf: async (request) => {
      const { user_id: userId = '' } = request.params as { user_id?: string };
      await services.requireAdminAndUser(actorOf(request), userId);
      return userId;
    },
  };
  const everybody: OwnerScope = {
    prefix: `/admin/${base}/`,
    tag: 'administration',
    describe: (things) => `${capitalised(things)} of everybody`,
    params: {},
    ownerOf: async (request) => {
      services.requireAdmin(actorOf(request));
      return undefined;
    },
  };
  return { own, ofUser, everybody };
}

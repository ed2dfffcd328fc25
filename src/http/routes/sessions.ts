import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { SessionService } from '../../services/identity/sessions.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf, callerOf } from '../request/authentication.ts';
import type { OwnerScope } from '../request/owner-scope.ts';
import { numericIdOf } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'account';
const list = { 200: Type.Array(Type.Ref('Session')) };

/** The sessions of the caller's browsers. */
export function sessionRoutes(app: FastifyInstance, sessions: SessionService): void {
  addResource(app, '/me/sessions/', {
    GET: {
      access: { action: 'sessions.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'listSessions', 'List your sessions', list),
        description: 'The browsers in which you are signed in.',
      },
      handler: (request) => sessions.list(actorOf(request).userId, actorOf(request).sessionId),
    },
    DELETE: {
      access: { action: 'sessions.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'endOtherSessions', 'End your other sessions', list),
        description: 'All except that of this request. Returns those that were ended. Tokens stay valid.',
      },
      handler: (request) => sessions.endOthers(actorOf(request), actorOf(request).userId),
    },
  });
  addResource(app, '/me/sessions/:session_id/', {
    DELETE: {
      access: { action: 'sessions.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'endSession', 'End a session', { 200: Type.Ref('Session') }),
        description: 'At once. Its browser must sign in again.',
        params: Type.Object({ session_id: Type.String({ description: 'The id of the session.' }) }),
      },
      handler: (request) => sessions.end(callerOf(request), numericIdOf(request, 'session_id')),
    },
  });
}

/** The sessions of any user, for those who may end them. */
export function adminSessionRoutes(app: FastifyInstance, sessions: SessionService, user: OwnerScope): void {
  addResource(app, '/admin/users/:user_id/sessions/', {
    GET: {
      access: { action: 'sessions.read', reach: 'others' },
      schema: {
        ...describeRoute(user.tag, 'listSessionsOfUser', user.describe('sessions'), list),
        description: 'The browsers in which the user is signed in.',
        params: Type.Object({ ...user.params }),
      },
      handler: async (request) => sessions.list((await user.ownerOf(request)) ?? '', actorOf(request).sessionId),
    },
    DELETE: {
      access: { action: 'sessions.write', reach: 'others' },
      schema: {
        ...describeRoute(user.tag, 'endSessionsOfUser', 'End all sessions of a user', list),
        description: 'Except that of this request. Returns those that were ended. Tokens stay valid.',
        params: Type.Object({ ...user.params }),
      },
      handler: async (request) => sessions.endOthers(actorOf(request), (await user.ownerOf(request)) ?? ''),
    },
  });
}

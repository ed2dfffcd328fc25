import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody, RoleBody } from '../../contract/administration.ts';
import type { UserService } from '../../services/identity/user-service.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { userIdOf, userParam } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'administration';
const path = '/admin/users/:user_id/';

/** Lists users, changes their roles, disables and enables them. */
export function userRoutes(app: FastifyInstance, users: UserService): void {
  addResource(app, '/admin/users/', {
    GET: {
      access: { action: 'users.read', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'listUsers', 'List all users with their roles', { 200: Type.Array(Type.Ref('User')) }),
        description: 'A user exists from the first request with a valid token.',
      },
      handler: () => users.list(),
    },
  });
  addResource(app, path, {
    GET: {
      access: { action: 'users.read', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'getUser', 'Read one user', { 200: Type.Ref('UserDetails') }),
        description: 'With the role, whether the user is disabled, and the identities at OpenID providers.',
        params: Type.Object(userParam),
      },
      handler: (request) => users.read(userIdOf(request)),
    },
  });
  const actions = [
    ['disable', 'Disable a user', 'All requests of the user are refused at once, and open streams end. Jobs continue.'],
    ['enable', 'Enable a user again', 'Tokens that were not revoked work again.'],
  ] as const;
  for (const [action, summary, description] of actions) {
    addResource(app, `${path}${action}/`, {
      POST: {
        access: { action: 'users.write', reach: 'others' },
        schema: {
          ...describeRoute(tag, `${action}User`, summary, { 200: Type.Ref('User') }),
          description,
          params: Type.Object(userParam),
          headers: Type.Object(keyHeader),
          body: ReasonBody,
        },
        handler: (request) => users[action](toChange(request)),
      },
    });
  }
  addResource(app, `${path}role/`, {
    PUT: {
      access: { action: 'users.write', reach: 'others' },
      schema: {
        ...describeRoute(tag, 'setUserRole', 'Change the role of a user', { 200: Type.Ref('User') }),
        description:
          'Takes effect at once, for all tokens of the user. 409 if the groups at an OpenID provider decide about the role.',
        params: Type.Object(userParam),
        headers: Type.Object(keyHeader),
        body: RoleBody,
      },
      handler: (request) => users.setRole(toChange(request), (request.body as Static<typeof RoleBody>).role),
    },
  });
}

function toChange(request: FastifyRequest) {
  const { reason } = request.body as Static<typeof ReasonBody>;
  return { actor: actorOf(request), userId: userIdOf(request), reason, request: idempotentRequest(request) };
}

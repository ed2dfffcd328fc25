import Type, { type Static } from 'typebox';
import { ReasonBody, RoleBody, UserDetailsSchema, UserSchema } from '../../contract/administration.ts';
import { disableUser, enableUser, listUsers, readUser, setUserRole } from '../../services/identity/users.ts';
import { type CallerRequest, operation, operations, others } from '../operation.ts';
import type { RouteContext } from './context.ts';

type ChangeRequest = CallerRequest<'/{user_id}/'> & { body: Static<typeof ReasonBody> };

const toChange = ({ caller, params, body, idempotency }: ChangeRequest) => ({
  actor: caller,
  userId: params.user_id,
  reason: body.reason,
  idempotency,
});

/** Lists users, changes their roles, disables and enables them. */
export const userOperations = (context: RouteContext) =>
  operations('administration', {
    listUsers: operation({
      route: 'GET /admin/users/',
      access: others('users.read'),
      summary: 'List all users with their roles',
      description: 'A user exists from the first request with a valid token.',
      responses: { 200: Type.Array(UserSchema) },
      handler: () => listUsers(context),
    }),
    getUser: operation({
      route: 'GET /admin/users/{user_id}/',
      access: others('users.read'),
      summary: 'Read one user',
      description: 'With the role, whether the user is disabled, and the identities at OpenID providers.',
      responses: { 200: UserDetailsSchema },
      handler: ({ params }) => readUser(context, params.user_id),
    }),
    disableUser: operation({
      route: 'POST /admin/users/{user_id}/disable/',
      access: others('users.write'),
      summary: 'Disable a user',
      description: 'All requests of the user are refused at once, and open streams end. Jobs continue.',
      body: ReasonBody,
      responses: { 200: UserSchema },
      handler: (request) => disableUser(context, toChange(request)),
    }),
    enableUser: operation({
      route: 'POST /admin/users/{user_id}/enable/',
      access: others('users.write'),
      summary: 'Enable a user again',
      description: 'Tokens that were not revoked work again.',
      body: ReasonBody,
      responses: { 200: UserSchema },
      handler: (request) => enableUser(context, toChange(request)),
    }),
    setUserRole: operation({
      route: 'PUT /admin/users/{user_id}/role/',
      access: others('users.write'),
      summary: 'Change the role of a user',
      description:
        'Takes effect at once, for all tokens of the user. 409 if the groups at an OpenID provider decide about the role.',
      key: 'optional',
      body: RoleBody,
      responses: { 200: UserSchema },
      handler: (request) => setUserRole(context, toChange(request), request.body.role),
    }),
  });

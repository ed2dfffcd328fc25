import Type, { type Static } from 'typebox';
import { MeSchema, SessionSchema, TokenBody, TokenSchema, TokenWithSecretSchema } from '../../contract/account.ts';
import { ReasonBody, RoleBody, UserDetailsSchema, UserSchema } from '../../contract/administration.ts';
import { requireUserId } from '../../services/identity/access.ts';
import {
  createToken,
  listTokens,
  readAccount,
  revokeAllTokens,
  revokeOwnToken,
  revokeToken,
} from '../../services/identity/account.ts';
import { endOtherSessions, endSession, listSessions } from '../../services/identity/sessions.ts';
import { disableUser, enableUser, listUsers, readUser, setUserRole } from '../../services/identity/users.ts';
import { type CallerRequest, operation, operations, others, own } from '../operation.ts';
import { pageQuery } from '../request/list-query.ts';
import type { RouteContext } from './context.ts';

const sessionList = { 200: Type.Array(SessionSchema) };
const tokenList = {
  description: 'Also expired and revoked ones. No list shows a token itself.',
  query: pageQuery('tokens', 200, '100'),
  responses: { 200: Type.Array(TokenSchema) },
};

type ChangeRequest = CallerRequest<'/{user_id}/'> & { body: Static<typeof ReasonBody> };

const toChange = ({ caller, params, body, idempotency }: ChangeRequest) => ({
  actor: caller,
  userId: params.user_id,
  reason: body.reason,
  idempotency,
});

/** The account, tokens and sessions of the caller; users, their roles and who is disabled; the tokens and sessions of any user, for those who may end them. */
export const accountOperations = (context: RouteContext) =>
  operations('account', {
    getMe: operation({
      route: 'GET /me/',
      access: own('account.read'),
      summary: 'Read who you are',
      description: 'The user, the roles, the projects, and what the token of this request can be used for.',
      responses: { 200: MeSchema },
      handler: ({ caller }) => readAccount(context, caller),
    }),
    listTokens: operation({
      route: 'GET /me/tokens/',
      access: own('tokens.read'),
      summary: 'List your tokens, newest first',
      ...tokenList,
      handler: ({ caller, query }) => listTokens(context, caller.userId, query),
    }),
    createToken: operation({
      route: 'POST /me/tokens/',
      access: own('tokens.write'),
      summary: 'Create a token',
      description:
        'Only this response shows the token. It cannot have more scopes, or live longer, than the token of this request. ' +
        'A repeated request with the same Idempotency-Key creates no other token, and is 409.',
      body: TokenBody,
      noStore: true,
      responses: { 201: TokenWithSecretSchema },
      handler: ({ caller, body, idempotency }) => createToken(context, caller, body, idempotency),
    }),
    revokeToken: operation({
      route: 'DELETE /me/tokens/{token_id}/',
      access: own('tokens.write'),
      summary: 'Revoke a token',
      description: 'At once and forever. Can be repeated.',
      responses: { 200: TokenSchema },
      handler: ({ caller, params }) => revokeOwnToken(context, caller, params.token_id),
    }),
    listSessions: operation({
      route: 'GET /me/sessions/',
      access: own('sessions.read'),
      summary: 'List your sessions',
      description: 'The browsers in which you are signed in.',
      responses: sessionList,
      handler: ({ caller }) => listSessions(context, caller.userId, caller.sessionId),
    }),
    endOtherSessions: operation({
      route: 'DELETE /me/sessions/',
      access: own('sessions.write'),
      summary: 'End your other sessions',
      description: 'All except that of this request. Returns those that were ended. Tokens stay valid.',
      responses: sessionList,
      handler: ({ caller }) => endOtherSessions(context, caller, caller.userId),
    }),
    endSession: operation({
      route: 'DELETE /me/sessions/{session_id}/',
      access: own('sessions.write'),
      summary: 'End a session',
      description: 'At once. Its browser must sign in again.',
      responses: { 200: SessionSchema },
      handler: ({ caller, params }) => endSession(context, caller, params.session_id),
    }),

    listTokensOfUser: operation({
      route: 'GET /admin/users/{user_id}/tokens/',
      access: others('tokens.read'),
      summary: 'Tokens of a user',
      ...tokenList,
      handler: async ({ params, query }) => listTokens(context, await requireUserId(context, params.user_id), query),
    }),
    revokeTokensOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/tokens/',
      access: others('tokens.write'),
      summary: 'Revoke all tokens of a user',
      description: 'At once and forever. Returns those that were valid.',
      responses: { 200: Type.Array(TokenSchema) },
      handler: async ({ caller, params }) =>
        revokeAllTokens(context, caller, await requireUserId(context, params.user_id)),
    }),
    revokeTokenOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/tokens/{token_id}/',
      access: others('tokens.write'),
      summary: 'Revoke a token of a user',
      description: 'At once and forever. Can be repeated.',
      responses: { 200: TokenSchema },
      handler: async ({ caller, params }) =>
        revokeToken(context, caller, await requireUserId(context, params.user_id), params.token_id),
    }),
    listSessionsOfUser: operation({
      route: 'GET /admin/users/{user_id}/sessions/',
      access: others('sessions.read'),
      summary: 'Sessions of a user',
      description: 'The browsers in which the user is signed in.',
      responses: sessionList,
      handler: async ({ caller, params }) =>
        listSessions(context, await requireUserId(context, params.user_id), caller.sessionId),
    }),
    endSessionsOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/sessions/',
      access: others('sessions.write'),
      summary: 'End all sessions of a user',
      description: 'Except that of this request. Returns those that were ended. Tokens stay valid.',
      responses: sessionList,
      handler: async ({ caller, params }) =>
        endOtherSessions(context, caller, await requireUserId(context, params.user_id)),
    }),

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

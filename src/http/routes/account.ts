import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { TokenBody } from '../../contract/account.ts';
import type { AccountService } from '../../services/identity/account.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf, callerOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import type { OwnerScope } from '../request/owner-scope.ts';
import { numericIdOf } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'account';
const tokenParam = { token_id: Type.String({ description: 'The id of the token.' }) };
const tokenIdOf = (request: FastifyRequest) => numericIdOf(request, 'token_id');

const TokenQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 200, description: 'Maximum number of tokens. Default: 100.' }),
  ),
  before: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the last token of the page before: only the older ones.',
    }),
  ),
});

/** The account and the tokens of the caller. */
export function accountRoutes(app: FastifyInstance, account: AccountService): void {
  addResource(app, '/me/', {
    GET: {
      access: { action: 'account.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'getMe', 'Read who you are', { 200: Type.Ref('Me') }),
        description: 'The user, the roles, the projects, and what the token of this request can be used for.',
      },
      handler: (request) => account.read(callerOf(request)),
    },
  });
  addResource(app, '/me/tokens/', {
    GET: {
      access: { action: 'tokens.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'listTokens', 'List your tokens, newest first', { 200: Type.Array(Type.Ref('Token')) }),
        description: 'Also expired and revoked ones. No list shows a token itself.',
        querystring: TokenQuery,
      },
      handler: (request) => account.listTokens(actorOf(request).userId, request.query as Static<typeof TokenQuery>),
    },
    POST: {
      access: { action: 'tokens.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'createToken', 'Create a token', { 201: Type.Ref('TokenWithSecret') }),
        description:
          'Only this response shows the token. It cannot have more scopes, or live longer, than the token of this request. ' +
          'A repeated request with the same Idempotency-Key creates no other token, and is 409.',
        headers: Type.Object(keyHeader),
        body: TokenBody,
      },
      handler: async (request, reply) => {
        const body = request.body as Static<typeof TokenBody>;
        const token = await account.createToken(callerOf(request), body, idempotentRequest(request));
        return reply.code(201).header('cache-control', 'no-store').send(token);
      },
    },
  });
  addResource(app, '/me/tokens/:token_id/', {
    DELETE: {
      access: { action: 'tokens.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'revokeToken', 'Revoke a token', { 200: Type.Ref('Token') }),
        description: 'At once and forever. Can be repeated.',
        params: Type.Object(tokenParam),
      },
      handler: (request) => account.revokeOwn(callerOf(request), tokenIdOf(request)),
    },
  });
}

/** The tokens of any user, for those who may revoke them. */
export function adminTokenRoutes(app: FastifyInstance, account: AccountService, user: OwnerScope): void {
  const path = '/admin/users/:user_id/tokens/';
  addResource(app, path, {
    GET: {
      access: { action: 'tokens.read', reach: 'others' },
      schema: {
        ...describeRoute(user.tag, 'listTokensOfUser', user.describe('tokens'), { 200: Type.Array(Type.Ref('Token')) }),
        description: 'Also expired and revoked ones. No list shows a token itself.',
        params: Type.Object({ ...user.params }),
        querystring: TokenQuery,
      },
      handler: async (request) =>
        account.listTokens((await user.ownerOf(request)) ?? '', request.query as Static<typeof TokenQuery>),
    },
    DELETE: {
      access: { action: 'tokens.write', reach: 'others' },
      schema: {
        ...describeRoute(user.tag, 'revokeTokensOfUser', 'Revoke all tokens of a user', {
          200: Type.Array(Type.Ref('Token')),
        }),
        description: 'At once and forever. Returns those that were valid.',
        params: Type.Object({ ...user.params }),
      },
      handler: async (request) => account.revokeAll(actorOf(request), (await user.ownerOf(request)) ?? ''),
    },
  });
  addResource(app, `${path}:token_id/`, {
    DELETE: {
      access: { action: 'tokens.write', reach: 'others' },
      schema: {
        ...describeRoute(user.tag, 'revokeTokenOfUser', 'Revoke a token of a user', { 200: Type.Ref('Token') }),
        description: 'At once and forever. Can be repeated.',
        params: Type.Object({ ...user.params, ...tokenParam }),
      },
      handler: async (request) =>
        account.revoke(actorOf(request), (await user.ownerOf(request)) ?? '', tokenIdOf(request)),
    },
  });
}

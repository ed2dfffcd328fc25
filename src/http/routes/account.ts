import Type from 'typebox';
import { TokenBody } from '../../contract/account.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { AccountService } from '../../services/identity/account.ts';
import { operation, operations, others, own } from '../operation.ts';
import { idempotentRequest } from '../request/idempotency-key.ts';

const listDescription = 'Also expired and revoked ones. No list shows a token itself.';
const tokenQuery = {
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
};

/** The account and the tokens of the caller, and the tokens of any user for those who may revoke them. */
export const accountOperations = (account: AccountService, access: Pick<AccessService, 'requireUser'>) =>
  operations('account', {
    getMe: operation({
      route: 'GET /me/',
      access: own('account.read'),
      summary: 'Read who you are',
      description: 'The user, the roles, the projects, and what the token of this request can be used for.',
      responses: { 200: Type.Ref('Me') },
      handler: ({ caller }) => account.read(caller),
    }),
    listTokens: operation({
      route: 'GET /me/tokens/',
      access: own('tokens.read'),
      summary: 'List your tokens, newest first',
      description: listDescription,
      query: tokenQuery,
      responses: { 200: Type.Array(Type.Ref('Token')) },
      handler: ({ caller, query }) => account.listTokens(caller.userId, query),
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
      responses: { 201: Type.Ref('TokenWithSecret') },
      handler: (request) => account.createToken(request.caller, request.body, idempotentRequest(request)),
    }),
    revokeToken: operation({
      route: 'DELETE /me/tokens/{token_id}/',
      access: own('tokens.write'),
      summary: 'Revoke a token',
      description: 'At once and forever. Can be repeated.',
      responses: { 200: Type.Ref('Token') },
      handler: ({ caller, params }) => account.revokeOwn(caller, params.token_id),
    }),

    listTokensOfUser: operation({
      route: 'GET /admin/users/{user_id}/tokens/',
      access: others('tokens.read'),
      summary: 'Tokens of a user',
      description: listDescription,
      query: tokenQuery,
      responses: { 200: Type.Array(Type.Ref('Token')) },
      handler: async ({ params, query }) => account.listTokens(await access.requireUser(params.user_id), query),
    }),
    revokeTokensOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/tokens/',
      access: others('tokens.write'),
      summary: 'Revoke all tokens of a user',
      description: 'At once and forever. Returns those that were valid.',
      responses: { 200: Type.Array(Type.Ref('Token')) },
      handler: async ({ caller, params }) => account.revokeAll(caller, await access.requireUser(params.user_id)),
    }),
    revokeTokenOfUser: operation({
      route: 'DELETE /admin/users/{user_id}/tokens/{token_id}/',
      access: others('tokens.write'),
      summary: 'Revoke a token of a user',
      description: 'At once and forever. Can be repeated.',
      responses: { 200: Type.Ref('Token') },
      handler: async ({ caller, params }) =>
        account.revoke(caller, await access.requireUser(params.user_id), params.token_id),
    }),
  });

import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { patterns } from '../../contract/fields.ts';
import {
  AuthorizationServerSchema,
  DeviceAuthorizationSchema,
  type OAuthErrorCode,
  OAuthErrorSchema,
  OAuthTokenSchema,
} from '../../contract/oauth.ts';
import { formatScopes, parseScopeList, tokenScopes, userScopes } from '../../domain/identity/policy.ts';
import {
  decideDeviceRequest,
  pollDeviceRequest,
  readDeviceRequest,
  startDeviceRequest,
} from '../../services/identity/device-flow.ts';
import { operation, operations, page } from '../operation.ts';
import { findSignedIn, type SignedIn } from '../request/access.ts';
import { html, sendPage } from '../response/page.ts';
import type { RouteContext } from './context.ts';

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
const oauthError = {
  description: 'The request is refused, or the user has not decided yet.',
  content: { 'application/json': { schema: OAuthErrorSchema } },
};

/**
 * Bursar's own device authorization grant (RFC 8628), for programs of users who have no OpenID provider. Unknown parameters
 * are ignored, as OAuth requires.
 */
export function deviceRoutes(context: RouteContext) {
  const { browser, rates } = context;

  const redirectToSignIn = (reply: FastifyReply, userCode = '') => {
    const target = userCode === '' ? '/device/' : `/device/?${new URLSearchParams({ user_code: userCode })}`;
    return reply.redirect(`/sign-in/?${new URLSearchParams({ return_to: target })}`, 303);
  };

  /** Shows who asks, so that a user does not confirm the request of somebody else. */
  async function sendQuestion(reply: FastifyReply, { caller, formToken }: SignedIn, userCode: string) {
    const request = await rates.signIn(reply.request, reply, () => readDeviceRequest(context, caller, userCode));
    return sendPage(reply, 200, {
      title: `Give “${request.clientName}” a token?`,
      body: html`<p>The program will act as you, user ${caller.userId}. Confirm only if you have started it yourself, just now,
and it shows this code.</p>
<dl>
<dt>Code</dt><dd><code>${userCode.toUpperCase()}</code></dd>
<dt>Program</dt><dd>${request.clientName}</dd>
<dt>Address</dt><dd>${request.address}</dd>
<dt>Scopes</dt><dd>${[...request.scopes].join(', ')}</dd>
</dl>
<form method="post" action="/device/">
<input type="hidden" name="user_code" value="${userCode}">
<input type="hidden" name="form_token" value="${formToken}">
<button name="decision" value="approved">Confirm</button>
<button name="decision" value="denied" class="secondary">Refuse</button>
</form>`,
    });
  }

  return [
    page({
      route: 'GET /device/',
      noStore: true,
      query: { user_code: Type.Optional(Type.String({ maxLength: 100 })) },
      handler: async (request, reply) => {
        const { user_code: userCode } = request.query;
        const signedIn = await findSignedIn(request, context);
        if (signedIn === null) return redirectToSignIn(reply, userCode);
        return userCode === undefined ? sendCodeForm(reply) : await sendQuestion(reply, signedIn, userCode);
      },
    }),
    page({
      route: 'POST /device/',
      noStore: true,
      form: Type.Object(
        {
          user_code: Type.String({ maxLength: 100 }),
          decision: Type.Enum(['approved', 'denied']),
          form_token: Type.String(),
        },
        { additionalProperties: false },
      ),
      handler: async (request, reply) => {
        const { user_code: userCode, decision, form_token: formToken } = request.body;
        const signedIn = await findSignedIn(request, context);
        if (signedIn === null) return redirectToSignIn(reply, userCode);
        browser.requireOwnForm(request, signedIn.session, formToken);
        const { caller } = signedIn;
        const answer = { userId: caller.userId, userCode, decision };
        const attempt = () => decideDeviceRequest(context, caller, answer);
        const { clientName } = await rates.signIn(request, reply, attempt);
        const [title, outcome] =
          decision === 'approved' ? ['Confirmed', 'now gets a token'] : ['Refused', 'gets no token'];
        const body = html`<p>“${clientName}” ${outcome}. You can close this page.</p>`;
        return sendPage(reply, 200, { title, body });
      },
    }),
    ...operations('account', {
      getAuthorizationServer: operation({
        route: 'GET /.well-known/oauth-authorization-server',
        access: 'public',
        noStore: true,
        summary: 'Read where programs get a token',
        description: 'The metadata of RFC 8414.',
        responses: { 200: AuthorizationServerSchema },
        handler: (request) => {
          const issuer = browser.originOf(request);
          return {
            issuer,
            device_authorization_endpoint: `${issuer}/oauth/device/`,
            token_endpoint: `${issuer}/oauth/token/`,
            token_endpoint_auth_methods_supported: ['none'],
            grant_types_supported: [deviceGrant],
            response_types_supported: [],
            scopes_supported: tokenScopes,
          };
        },
      }),
      startDeviceAuthorization: operation({
        route: 'POST /oauth/device/',
        access: 'public',
        noStore: true,
        errors: 'oauth',
        summary: 'Ask for a token for a program without a browser',
        description: 'RFC 8628. Show the user the code and the address, and poll the token endpoint.',
        form: Type.Object({
          client_id: Type.Optional(
            Type.String({
              maxLength: 100,
              pattern: patterns.oneLine.pattern,
              description: 'The name of the program, for the user.',
            }),
          ),
          scope: Type.Optional(Type.String({ description: 'Scopes, separated by spaces.' })),
        }),
        responses: { 200: DeviceAuthorizationSchema, 400: oauthError },
        handler: async (request, reply) => {
          const { client_id: clientId = '', scope = '' } = request.body;
          const { scopes, unknown } = parseScopeList(scope);
          if (unknown.length > 0)
            return sendError(reply, 'invalid_scope', `Unknown scope. Known are ${tokenScopes.join(', ')}.`);
          rates.signInStart(request, reply);
          const started = await startDeviceRequest(context, {
            clientName: clientId.trim() || 'a program',
            scopes: scopes.size === 0 ? userScopes : scopes,
            address: request.ip,
          });
          const page = `${browser.originOf(request)}/device/`;
          return {
            device_code: started.deviceCode,
            user_code: started.userCode,
            verification_uri: page,
            verification_uri_complete: `${page}?user_code=${started.userCode}`,
            expires_in: started.expiresInSeconds,
            interval: started.intervalSeconds,
          };
        },
      }),
      pollDeviceToken: operation({
        route: 'POST /oauth/token/',
        access: 'public',
        noStore: true,
        errors: 'oauth',
        summary: 'Get the token when the user has confirmed the code',
        description:
          'RFC 8628. Repeat it, with the interval of the device endpoint, while it says `authorization_pending`.',
        form: Type.Object({
          grant_type: Type.String({ description: `\`${deviceGrant}\`` }),
          device_code: Type.Optional(Type.String({ description: 'From the device endpoint. Required by this grant.' })),
          client_id: Type.Optional(Type.String({ description: 'Ignored.' })),
        }),
        responses: { 200: OAuthTokenSchema, 400: oauthError },
        handler: async ({ body, ip: address, id: requestId }, reply) => {
          if (body.grant_type !== deviceGrant)
            return sendError(reply, 'unsupported_grant_type', `grant_type must be ${deviceGrant}.`);
          if (body.device_code === undefined) return sendError(reply, 'invalid_request', 'device_code is required.');
          const result = await pollDeviceRequest(context, body.device_code, { address, requestId });
          if (result.kind === 'error') return sendError(reply, result.error, result.description);
          return {
            access_token: result.token,
            token_type: 'Bearer',
            expires_in: result.expiresInSeconds,
            scope: formatScopes(result.scopes),
          };
        },
      }),
    }),
  ];
}

function sendCodeForm(reply: FastifyReply): FastifyReply {
  return sendPage(reply, 200, {
    title: 'Connect a program',
    body: html`<form action="/device/">
<label for="user_code">The code that the program shows</label>
<p><input id="user_code" name="user_code" placeholder="WDJB-MJHT" maxlength="20" autocomplete="off" required autofocus></p>
<button>Continue</button>
</form>`,
  });
}

/** The error form of RFC 6749, section 5.2. */
function sendError(reply: FastifyReply, error: OAuthErrorCode, description: string): FastifyReply {
  return reply.code(400).send({ error, error_description: description });
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { OAuthErrorCode } from '../../contract/oauth.ts';
import { formatScopes, parseScopeList, tokenScopes, userScopes } from '../../domain/identity/policy.ts';
import type { DeviceFlow } from '../../services/identity/device-flow.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import type { Browser } from '../request/browser.ts';
import { addResource } from './resource.ts';

export interface OAuthRouteDeps {
  deviceFlow: DeviceFlow;
  browser: Pick<Browser, 'originOf'>;
  limits: Pick<RateLimits, 'signInStart'>;
}

const tag = 'account';
const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';

/** Only a description: the routes report errors in the form of OAuth, and ignore unknown parameters, as it requires. */
const form = (fields: Record<string, string>, required: string[]) => ({
  consumes: ['application/x-www-form-urlencoded'],
  body: {
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(fields).map(([name, description]) => [name, { type: 'string', description }]),
    ),
    required,
  },
  // Accepts everything, because the handlers check it.
  validatorCompiler: () => () => true,
});
const oauthError = {
  description: 'The request is refused, or the user has not decided yet.',
  content: { 'application/json': { schema: Type.Ref('OAuthError') } },
};

/** Bursar's own device authorization grant (RFC 8628), for programs of users who have no OpenID provider. */
export function oauthRoutes(app: FastifyInstance, { deviceFlow, browser, limits }: OAuthRouteDeps): void {
  addResource(app, '/.well-known/oauth-authorization-server', {
    GET: {
      access: null,
      schema: {
        ...describeRoute(tag, 'getAuthorizationServer', 'Read where programs get a token', {
          200: Type.Ref('AuthorizationServer'),
        }),
        description: 'The metadata of RFC 8414.',
        security: [],
      },
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
    },
  });

  const { validatorCompiler, ...deviceForm } = form(
    { client_id: 'The name of the program, for the user.', scope: 'Scopes, separated by spaces.' },
    [],
  );
  addResource(app, '/oauth/device/', {
    POST: {
      access: null,
      validatorCompiler,
      schema: {
        ...describeRoute(tag, 'startDeviceAuthorization', 'Ask for a token for a program without a browser', {
          200: Type.Ref('DeviceAuthorization'),
          400: oauthError,
        }),
        description: 'RFC 8628. Show the user the code and the address, and poll the token endpoint.',
        security: [],
        ...deviceForm,
      },
      handler: async (request, reply) => {
        const { client_id: name = '', scope } = fieldsOf(request);
        const clientName = name.trim() === '' ? 'a program' : name.trim();
        // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
        if (clientName.length > 100 || /[\u0000-\u001f\u007f-\u009f]/.test(clientName))
          return sendError(reply, 'invalid_request', 'client_id must be a name of at most 100 characters.');
        const { scopes, unknown } = parseScopeList(scope ?? '');
        if (unknown.length > 0)
          return sendError(reply, 'invalid_scope', `Unknown scope. Known are ${tokenScopes.join(', ')}.`);
        limits.signInStart(request, reply);
        const started = await deviceFlow.start({
          clientName,
          scopes: scopes.size === 0 ? userScopes : scopes,
          address: request.ip,
        });
        const page = `${browser.originOf(request)}/device/`;
        return reply.send({
          device_code: started.deviceCode,
          user_code: started.userCode,
          verification_uri: page,
          verification_uri_complete: `${page}?user_code=${started.userCode}`,
          expires_in: started.expiresInSeconds,
          interval: started.intervalSeconds,
        });
      },
    },
  });

  const { validatorCompiler: acceptAll, ...tokenForm } = form(
    { grant_type: `\`${deviceGrant}\``, device_code: 'From the device endpoint.', client_id: 'Ignored.' },
    ['grant_type', 'device_code'],
  );
  addResource(app, '/oauth/token/', {
    POST: {
      access: null,
      validatorCompiler: acceptAll,
      schema: {
        ...describeRoute(tag, 'pollDeviceToken', 'Get the token when the user has confirmed the code', {
          200: Type.Ref('OAuthToken'),
          400: oauthError,
        }),
        description:
          'RFC 8628. Repeat it, with the interval of the device endpoint, while it says `authorization_pending`.',
        security: [],
        ...tokenForm,
      },
      handler: async (request, reply) => {
        const { grant_type: grantType, device_code: deviceCode } = fieldsOf(request);
        if (grantType === undefined) return sendError(reply, 'invalid_request', 'grant_type is required.');
        if (grantType !== deviceGrant)
          return sendError(reply, 'unsupported_grant_type', `grant_type must be ${deviceGrant}.`);
        if (deviceCode === undefined) return sendError(reply, 'invalid_request', 'device_code is required.');
        const result = await deviceFlow.poll(deviceCode, { address: request.ip, requestId: request.id });
        if (result.kind === 'error') return sendError(reply, result.error, result.description);
        return reply.send({
          access_token: result.token,
          token_type: 'Bearer',
          expires_in: result.expiresInSeconds,
          scope: formatScopes(result.scopes),
        });
      },
    },
  });
}

const fieldsOf = (request: FastifyRequest) => (request.body ?? {}) as Record<string, string | undefined>;

/** The error form of RFC 6749, section 5.2. */
function sendError(reply: FastifyReply, error: OAuthErrorCode, description: string): FastifyReply {
  return reply.code(400).send({ error, error_description: description });
}

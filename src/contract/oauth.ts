import Type from 'typebox';
import { tokenScopes } from '../domain/identity/policy.ts';
import { namedObject, nullable } from './fields.ts';

// The objects of OAuth 2.0 keep the names and forms of their RFCs.

const server = 'https://bursar.example.org';
const scope = Type.String({ description: 'Scopes, separated by spaces.' });

/** RFC 8414. */
export const AuthorizationServerSchema = namedObject(
  'AuthorizationServer',
  {
    issuer: Type.String(),
    device_authorization_endpoint: Type.String(),
    token_endpoint: Type.String(),
    token_endpoint_auth_methods_supported: Type.Array(Type.String()),
    grant_types_supported: Type.Array(Type.String()),
    response_types_supported: Type.Array(Type.String()),
    scopes_supported: Type.Array(Type.String()),
  },
  {
    issuer: server,
    device_authorization_endpoint: `${server}/oauth/device/`,
    token_endpoint: `${server}/oauth/token/`,
    token_endpoint_auth_methods_supported: ['none'],
    grant_types_supported: ['urn:ietf:params:oauth:grant-type:device_code'],
    response_types_supported: [],
    scopes_supported: [...tokenScopes],
  },
);

/** RFC 8628, section 3.2. */
export const DeviceAuthorizationSchema = namedObject(
  'DeviceAuthorization',
  {
    device_code: Type.String(),
    user_code: Type.String({ description: 'Code that the user confirms.' }),
    verification_uri: Type.String({ description: 'The page where the user enters the code.' }),
    verification_uri_complete: Type.String({ description: 'The same page, with the code.' }),
    expires_in: Type.Integer({ description: 'Seconds.' }),
    interval: Type.Integer({ description: 'Seconds between two polls.' }),
  },
  {
    device_code: 'bursar_device_…',
    user_code: 'WDJB-MJHT',
    verification_uri: `${server}/device/`,
    verification_uri_complete: `${server}/device/?user_code=WDJB-MJHT`,
    expires_in: 600,
    interval: 5,
  },
);

/** RFC 6749, section 5.1. */
export const OAuthTokenSchema = namedObject(
  'OAuthToken',
  { access_token: Type.String(), token_type: Type.Literal('Bearer'), expires_in: Type.Integer(), scope },
  { access_token: 'bursar_…', token_type: 'Bearer', expires_in: 7_776_000, scope: 'jobs:read' },
);

export const oauthErrors = [
  'invalid_request',
  'invalid_scope',
  'invalid_grant',
  'unsupported_grant_type',
  'authorization_pending',
  'slow_down',
  'access_denied',
  'expired_token',
] as const;
export type OAuthErrorCode = (typeof oauthErrors)[number];

/** RFC 6749, section 5.2, and RFC 8628, section 3.5. */
export const OAuthErrorSchema = namedObject(
  'OAuthError',
  { error: Type.Enum([...oauthErrors]), error_description: Type.String() },
  { error: 'authorization_pending', error_description: 'The user has not confirmed the code yet. Try again.' },
);

export const SignInOptionsSchema = namedObject(
  'SignInOptions',
  {
    issuers: Type.Array(
      Type.Object(
        {
          name: Type.String({ description: 'For people.' }),
          issuer: Type.String(),
          client_id: nullable(Type.String(), 'With which programs can ask the issuer for a token.'),
          scope,
          device_authorization_endpoint: nullable(Type.String(), 'Null if the issuer has none, or cannot be reached.'),
        },
        { additionalProperties: false },
      ),
      { description: 'OpenID providers whose access tokens are accepted.' },
    ),
    device_authorization_endpoint: Type.String({ description: "Bursar's own, which needs no issuer." }),
    token_endpoint: Type.String(),
  },
  {
    issuers: [
      {
        name: 'University',
        issuer: 'https://login.example.org',
        client_id: 'bursar',
        scope: 'openid profile email',
        device_authorization_endpoint: 'https://login.example.org/device',
      },
    ],
    device_authorization_endpoint: `${server}/oauth/device/`,
    token_endpoint: `${server}/oauth/token/`,
  },
);

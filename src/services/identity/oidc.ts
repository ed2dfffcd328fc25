import { createRemoteJWKSet, decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { OidcConfig } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';

/** The verified claims of an OpenID provider about a user. */
export interface Identity {
  issuer: string;
  subject: string;
  /** From the configured claim; null if none is configured. */
  userId: string | null;
  admin: boolean;
}

export interface OidcVerifier {
  /** Undefined if the token is not from a configured issuer. Throws if it is, but is not valid. */
  verify(token: string): Promise<Identity | undefined>;
}

// No symmetric algorithms: a key that verifies such a signature can also forge it.
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
const discoveryTimeoutMs = 5000;

/** Checks access tokens by signature, issuer, audience and expiry. Signing keys are fetched on first use and cached. */
export function createOidcVerifier(providers: readonly OidcConfig[]): OidcVerifier {
  const keySets = new Map<string, JWTVerifyGetKey>();

  async function getKeySet(issuer: string): Promise<JWTVerifyGetKey> {
    const cached = keySets.get(issuer);
    if (cached !== undefined) return cached;
    const keySet = createRemoteJWKSet(await discoverKeySetUrl(issuer));
    keySets.set(issuer, keySet);
    return keySet;
  }

  return {
    async verify(token) {
      const provider = providers.find(({ issuer }) => issuer === claimedIssuer(token));
      if (provider === undefined) return undefined;
      try {
        const { issuer, audience } = provider;
        const options = { issuer, audience, algorithms, requiredClaims: ['sub', 'exp'], clockTolerance: 5 };
        const { payload } = await jwtVerify(token, await getKeySet(issuer), options);
        return toIdentity(payload, provider);
      } catch (cause) {
        throw toTokenError(cause);
      }
    },
  };
}

/** The unverified issuer, which only selects the keys for the verification. */
function claimedIssuer(token: string): string | undefined {
  if (token.split('.').length !== 3) return undefined;
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

async function discoverKeySetUrl(issuer: string): Promise<URL> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const response = await fetch(url, { signal: AbortSignal.timeout(discoveryTimeoutMs) });
  if (!response.ok) throw new Error(`${url} responded with status ${response.status}`);
  const { jwks_uri: keySetUrl } = (await response.json()) as { jwks_uri?: string };
  return new URL(keySetUrl ?? '');
}

function toIdentity(claims: JWTPayload, provider: OidcConfig): Identity {
  const { userClaim, adminClaim, adminValue } = provider;
  const userId = userClaim === undefined ? null : String(claims[userClaim] ?? '');
  if (userId !== null && !/^\d{1,20}$/.test(userId)) {
    throw new BursarError('token_invalid', `The token has no numeric user identifier in its claim "${userClaim}".`);
  }
  const roles = adminClaim === undefined ? [] : [claims[adminClaim]].flat();
  return { issuer: provider.issuer, subject: claims.sub ?? '', userId, admin: roles.includes(adminValue) };
}

function toTokenError(cause: unknown): BursarError {
  if (cause instanceof BursarError) return cause;
  if (cause instanceof errors.JWTExpired)
    return new BursarError('token_invalid', 'This token has expired. Ask for a new one.', { cause });
  if (cause instanceof errors.JOSEError && !isProviderFailure(cause)) {
    const message =
      'This token is not valid: its signature, issuer, audience or dates are wrong. Get a token for this service.';
    return new BursarError('token_invalid', message, { cause });
  }
  return new BursarError('unavailable', 'The OpenID provider of this token cannot be reached. Try again later.', {
    cause,
    transient: true,
  });
}

/** Whether the keys of the provider could not be read. The generic error is that of a response that is not 200 or not JSON. */
function isProviderFailure(error: errors.JOSEError): boolean {
  const { JWKSTimeout, JWKSInvalid, JWKInvalid, JOSEError } = errors;
  return [JWKSTimeout, JWKSInvalid, JWKInvalid].some((type) => error instanceof type) || error.code === JOSEError.code;
}

import { createRemoteJWKSet, decodeJwt, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { OidcConfig } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';

/** What a provider of identities vouches for. */
export interface Identity {
  issuer: string;
  subject: string;
  /** From the configured claim, where there is one. */
  userId: string | null;
  admin: boolean;
}

export interface OidcVerifier {
  /** Undefined when the token is not one of the configured issuers', and so none of this verifier's business. */
  verify(token: string): Promise<Identity | undefined>;
}

// Never a symmetric one: whoever can check such a signature could also forge it.
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

/** Checks access tokens by signature, issuer, audience and expiry. Keys are fetched when needed, and kept. */
export function createOidcVerifier(providers: readonly OidcConfig[]): OidcVerifier {
  const keys = new Map<string, JWTVerifyGetKey>();

  async function keysOf(issuer: string): Promise<JWTVerifyGetKey> {
    const known = keys.get(issuer);
    if (known !== undefined) return known;
    const found = createRemoteJWKSet(await discoverKeys(issuer));
    keys.set(issuer, found);
    return found;
  }

  return {
    async verify(token) {
      const provider = providers.find(({ issuer }) => issuer === claimedIssuer(token));
      if (provider === undefined) return undefined;
      try {
        const { issuer, audience } = provider;
        const options = { issuer, audience, algorithms, requiredClaims: ['sub', 'exp'], clockTolerance: 5 };
        const { payload } = await jwtVerify(token, await keysOf(issuer), options);
        return identityOf(payload, provider);
      } catch (cause) {
        throw refusal(cause);
      }
    },
  };
}

/** What the token says of itself, only to find the keys to check it with. */
function claimedIssuer(token: string): string | undefined {
  if (token.split('.').length !== 3) return undefined;
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

async function discoverKeys(issuer: string): Promise<URL> {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const response = await fetch(address, { signal: AbortSignal.timeout(discoveryTimeoutMs) });
  if (!response.ok) throw new Error(`${address} answered ${response.status}`);
  const { jwks_uri: keysAddress } = (await response.json()) as { jwks_uri?: string };
  return new URL(keysAddress ?? '');
}

function identityOf(claims: JWTPayload, provider: OidcConfig): Identity {
  const { userClaim, adminClaim, adminValue } = provider;
  const userId = userClaim === undefined ? null : String(claims[userClaim] ?? '');
  if (userId !== null && !/^\d{1,20}$/.test(userId)) {
    throw new BursarError('token_invalid', `The token carries no numeric user identifier in "${userClaim}".`);
  }
  const roles = adminClaim === undefined ? [] : [claims[adminClaim]].flat();
  return { issuer: provider.issuer, subject: claims.sub ?? '', userId, admin: roles.includes(adminValue) };
}

function refusal(cause: unknown): BursarError {
  if (cause instanceof BursarError) return cause;
  if (cause instanceof errors.JWTExpired)
    return new BursarError('token_invalid', 'This token has expired. Ask for a new one.', { cause });
  const isTokensFault = cause instanceof errors.JOSEError && !(cause instanceof errors.JWKSTimeout);
  if (isTokensFault) {
    const message =
      'This token is not valid here: its signature, issuer, audience or dates do not fit. Ask for one for this service.';
    return new BursarError('token_invalid', message, { cause });
  }
  return new BursarError('unavailable', 'The provider of this token cannot be reached to check it. Try again later.', {
    cause,
    transient: true,
  });
}

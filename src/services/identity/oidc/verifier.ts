import { decodeJwt, type JWTHeaderParameters, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { tokenPrefix } from '../tokens.ts';
import { type Identity, requireClient, toIdentity } from './claims.ts';
import { clockSkewSeconds, type OidcClients } from './clients.ts';
import { createIntrospection } from './introspect.ts';
import { createKeySet } from './key-set.ts';
import { invalidToken, toTokenError } from './provider-failure.ts';

export interface OidcVerifier {
  /**
   * Undefined if the token is not from a configured issuer. Throws if it is, but is not valid (`token_invalid`), or if it
   * cannot be checked now because the issuer is away (`unavailable`).
   */
  verify(token: string): Promise<Identity | undefined>;
}

/** Checks access tokens: a JWT by the keys of its issuer, any other token by introspection where that is configured. */
export function createOidcVerifier(
  providers: readonly OidcConfig[],
  clients: OidcClients,
  now: () => number = Date.now,
): OidcVerifier {
  const issuers = new Map(
    providers.map((provider) => [provider.issuer, { provider, keys: createKeySet(clients, provider, now) } as const]),
  );
  const introspections = providers
    .filter(({ introspection }) => introspection)
    .map((provider) => ({ provider, introspect: createIntrospection(clients, provider, now) }));

  async function verifyOpaque(token: string): Promise<Identity | undefined> {
    let failure: unknown;
    for (const { provider, introspect } of introspections) {
      try {
        const claims = await introspect(token);
        if (claims !== undefined) return toIdentity(claims, provider);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure;
    return undefined;
  }

  return {
    async verify(token) {
      try {
        const claimed = claimedIssuer(token);
        if (claimed === null) return token.startsWith(tokenPrefix) ? undefined : await verifyOpaque(token);
        const issuer = issuers.get(claimed);
        if (issuer === undefined) return undefined;
        const { provider, keys } = issuer;
        return toIdentity(await verifyJwt(token, provider, keys, now()), provider);
      } catch (cause) {
        throw toTokenError(cause);
      }
    },
  };
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

/** Types of access tokens (RFC 9068). Many issuers write only `JWT`, or nothing. */
const accessTokenTypes = new Set(['jwt', 'at+jwt', 'application/at+jwt']);
/** Claims that an ID token or a logout token has, and an access token never. */
const otherTokenClaims = ['at_hash', 'c_hash', 's_hash', 'events'];

/** The unverified issuer of a JWT, which only selects the keys for the verification. Null for other tokens. */
function claimedIssuer(token: string): string | null {
  if (token.split('.').length !== 3) return null;
  try {
    return decodeJwt(token).iss ?? null;
  } catch {
    return null;
  }
}

/** Returns the claims of an access token, after all checks that need nothing but the keys of the issuer. */
async function verifyJwt(
  token: string,
  { issuer, audience, clients }: OidcConfig,
  keys: JWTVerifyGetKey,
  now: number,
): Promise<JWTPayload> {
  const { payload, protectedHeader } = await jwtVerify(token, keys, {
    issuer,
    audience,
    algorithms,
    requiredClaims: ['sub', 'exp'],
    clockTolerance: clockSkewSeconds,
    currentDate: new Date(now),
  });
  requireAccessToken(protectedHeader, payload);
  requireIssuedBefore(payload, now / 1000 + clockSkewSeconds);
  requireClient(payload, clients);
  return payload;
}

function requireAccessToken({ typ }: JWTHeaderParameters, claims: JWTPayload): void {
  const isOtherType = typ !== undefined && !accessTokenTypes.has(typ.toLowerCase());
  const hasOtherClaims = otherTokenClaims.some((claim) => claims[claim] !== undefined);
  // Keycloak has the claim `typ`. Its earlier versions copied `nonce`, which is one of ID tokens, into access tokens.
  const isIdToken = claims.typ === 'ID' || (claims.nonce !== undefined && claims.typ !== 'Bearer');
  if (isOtherType || hasOtherClaims || isIdToken)
    throw invalidToken('This is not an access token. Send the access token of the issuer, not its ID token.');
}

function requireIssuedBefore({ iat }: JWTPayload, latest: number): void {
  if (iat !== undefined && iat > latest) throw invalidToken('This token is from the future. Check the clocks.');
}

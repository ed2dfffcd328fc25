import { decodeJwt, type JWTHeaderParameters, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { clockSkewSeconds } from './clients.ts';
import { invalidToken } from './provider-failure.ts';

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
export function claimedIssuer(token: string): string | null {
  if (token.split('.').length !== 3) return null;
  try {
    return decodeJwt(token).iss ?? null;
  } catch {
    return null;
  }
}

/** Returns the claims of an access token, after all checks that need nothing but the keys of the issuer. */
export async function verifyJwt(
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

/**
 * The audience says that the token is for Bursar. `azp` or `client_id` is the program that it was issued to, which can be any
 * of the site, unless the configuration lists some.
 */
export function requireClient(claims: JWTPayload, clients: readonly string[] | undefined): void {
  const client = claims.azp ?? claims.client_id;
  if (clients === undefined || clients.includes(String(client))) return;
  throw invalidToken(`Tokens of the client ${JSON.stringify(client ?? null)} are not accepted here.`);
}

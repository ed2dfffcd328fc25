import { hash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { LRUCache } from 'lru-cache';
import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { createSlots } from '../../../domain/slots.ts';
import { requireClient } from './claims.ts';
import { clockSkewSeconds, loadClient, type OidcClients } from './clients.ts';
import { invalidToken, ProviderFailure } from './provider-failure.ts';

/** A revoked token is accepted for at most this long. */
const activeMs = 30_000;
const inactiveMs = 10_000;
const failureMs = 5000;
const maxTokens = 10_000;
const concurrency = 20;

/** The response of the endpoint, with its token's claims; null if the token is not active there. */
type Introspection = JWTPayload | null;

interface CachedResult {
  result: Promise<Introspection>;
  until: number;
}

/**
 * Checks opaque tokens at the introspection endpoint of an issuer (RFC 7662). Returns the claims of a valid token, and
 * undefined if the issuer does not know the token. Results are cached for a short time, by the hash of the token.
 */
export function createIntrospection(clients: OidcClients, provider: OidcConfig, now: () => number) {
  const slots = createSlots({ total: concurrency });
  const results = new LRUCache<string, CachedResult>({ max: maxTokens });
  let failedAt = Number.NEGATIVE_INFINITY;
  let failure: unknown;

  async function introspect(token: string): Promise<Introspection> {
    if (now() - failedAt < failureMs) throw failure;
    try {
      const [client, configuration] = await Promise.all([loadClient(), clients.configure(provider)]);
      const response = await client.tokenIntrospection(configuration, token, { token_type_hint: 'access_token' });
      return response.active ? (response as JWTPayload) : null;
    } catch (cause) {
      // The issuer cannot make sense of this token. Other tokens must not suffer from it.
      if (statusOf(cause) === 400) return null;
      failedAt = now();
      failure = new ProviderFailure(cause);
      throw failure;
    }
  }

  function find(token: string): Promise<Introspection> {
    const key = hash('sha256', token);
    const cached = results.get(key);
    if (cached !== undefined && now() < cached.until) return cached.result;
    const entry: CachedResult = { result: slots.run(() => introspect(token)), until: Number.POSITIVE_INFINITY };
    results.set(key, entry);
    entry.result.then(
      (response) => {
        entry.until = now() + (response === null ? inactiveMs : activeMs);
      },
      () => results.delete(key),
    );
    return entry.result;
  }

  return async (token: string): Promise<JWTPayload | undefined> => {
    const claims = await find(token);
    if (claims === null) return undefined;
    requireValid(claims, provider, now() / 1000);
    return claims;
  };
}

/** The status of a response that `openid-client` does not accept. */
function statusOf(error: unknown): number | undefined {
  const { status, cause } = error as { status?: number; cause?: { status?: number } };
  return status ?? cause?.status;
}

/** The issuer has said that the token is active. It may still be one for somebody else, or have expired since. */
function requireValid(claims: JWTPayload, provider: OidcConfig, nowSeconds: number): void {
  const { issuer, audience, clientId, clients } = provider;
  const { iss, aud, exp, nbf, sub, token_type: type } = claims;
  if (exp !== undefined && exp + clockSkewSeconds <= nowSeconds)
    throw invalidToken('This token has expired. Ask for a new one.');
  if (nbf !== undefined && nbf - clockSkewSeconds > nowSeconds) throw invalidToken('This token is not valid yet.');
  if (iss !== undefined && iss !== issuer) throw invalidToken('This token is from another issuer.');
  if (aud !== undefined && ![aud].flat().includes(audience))
    throw invalidToken('This token is for another service. Get a token for this service.');
  if (type !== undefined && String(type).toLowerCase() !== 'bearer') throw invalidToken('This is not a bearer token.');
  if (sub === undefined) throw invalidToken('The issuer does not say whose token this is.');
  // A token that names no audience could be for any service of the issuer.
  requireClient(claims, clients ?? (aud === undefined && clientId !== undefined ? [clientId] : undefined));
}

import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { createCachedValue } from './cached-value.ts';
import { limitedFetch, type OidcClients, timeoutSeconds } from './clients.ts';
import { ProviderFailure } from './provider-failure.ts';

const maxAgeMs = 10 * 60 * 1000;
const retryMs = 5000;
/** Anybody can send tokens with invented key ids: they must not make Bursar flood the issuer. */
const unknownKeyIntervalMs = 60_000;

/**
 * The keys of an issuer, fetched on first use and cached. A key that is not among them is looked up at the issuer, at most
 * once per minute. While the issuer is away, its cached keys stay in use. (The remote key set of `jose` stops using them after
 * their maximum age, and fetches again with every unknown key while that fails.)
 */
export function createKeySet(clients: OidcClients, provider: OidcConfig, now: () => number): JWTVerifyGetKey {
  const load = async () => {
    const { jwks_uri: url = '' } = (await clients.configure(provider)).serverMetadata();
    if (provider.issuer.startsWith('https:') && !url.startsWith('https:'))
      throw new Error(`jwks_uri is not safe: ${url}`);
    const headers = { accept: 'application/json, application/jwk-set+json' };
    const response = await limitedFetch(url, { headers, signal: AbortSignal.timeout(timeoutSeconds * 1000) });
    if (!response.ok) throw new Error(`${url} responded with status ${response.status}`);
    return createLocalJWKSet((await response.json()) as JSONWebKeySet);
  };
  const keys = createCachedValue(load, { maxAgeMs, retryMs, now });

  return async (header, token) => {
    try {
      const cached = await keys.get();
      return await cached(header, token).catch(async (error) => {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
        const reloaded = await keys.reload(unknownKeyIntervalMs);
        return await reloaded(header, token);
      });
    } catch (error) {
      if (isUnknownKey(error)) throw error;
      throw new ProviderFailure(error);
    }
  };
}

/** Whether the token names no key of the issuer. All other errors are about the issuer and its keys, not about the token. */
function isUnknownKey(error: unknown): boolean {
  return error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
}

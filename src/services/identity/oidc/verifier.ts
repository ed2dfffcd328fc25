import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { tokenPrefix } from '../tokens.ts';
import { type Identity, toIdentity } from './claims.ts';
import type { OidcClients } from './clients.ts';
import { createIntrospection } from './introspect.ts';
import { createKeySet } from './key-set.ts';
import { toTokenError } from './provider-failure.ts';
import { claimedIssuer, verifyJwt } from './verify-jwt.ts';

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

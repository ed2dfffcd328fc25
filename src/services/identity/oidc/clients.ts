import type { ClientAuth, Configuration, CustomFetchOptions } from 'openid-client';
import type { OidcConfig } from '../../../config/oidc-schema.ts';
import { createCachedValue } from './cached-value.ts';
import { ProviderFailure } from './provider-failure.ts';

/** Bursar as the client of its OpenID providers. */
export interface OidcClients {
  /**
   * The discovery document of a provider and the settings of Bursar there, for the functions of `openid-client`. Throws
   * `ProviderFailure` if there is no valid document.
   */
  configure(provider: OidcConfig): Promise<Configuration>;
}

const maxAgeMs = 60 * 60 * 1000;
/** A failure is remembered, so that a storm of tokens does not become a storm of requests to the issuer. */
const retryMs = 5000;
export const timeoutSeconds = 5;
/** Tolerated difference between the clocks of the issuer and of Bursar. */
export const clockSkewSeconds = 30;
const maxResponseBytes = 1_000_000;

/** Loaded when it is needed first: it would slow down the start. */
export const loadClient = () => import('openid-client');

/** Caches the configurations: each caches the keys that ID tokens are checked with. */
export function createOidcClients(now: () => number = Date.now): OidcClients {
  const configurations = new Map<string, ReturnType<typeof createCachedValue<Configuration>>>();
  return {
    async configure(provider) {
      let configuration = configurations.get(provider.issuer);
      if (configuration === undefined) {
        configuration = createCachedValue(() => discover(provider), { maxAgeMs, retryMs, now });
        configurations.set(provider.issuer, configuration);
      }
      return await configuration.get();
    },
  };
}

async function discover(provider: OidcConfig): Promise<Configuration> {
  const client = await loadClient();
  // Without a client at the issuer, only its document is used.
  const { issuer, audience, clientId = audience } = provider;
  try {
    const configuration = await client.discovery(
      new URL(issuer),
      clientId,
      { [client.clockTolerance]: clockSkewSeconds },
      authenticationOf(provider, client),
      {
        timeout: timeoutSeconds,
        [client.customFetch]: limitedFetch,
        // By default the library trusts TLS, and does not check the signature of the ID token.
        execute: [
          client.enableNonRepudiationChecks,
          ...(issuer.startsWith('http:') ? [client.allowInsecureRequests] : []),
        ],
      },
    );
    // The library ignores a slash at the end. Otherwise one issuer could speak for another.
    const found = configuration.serverMetadata().issuer;
    if (found !== issuer) throw new Error(`the discovery document is of another issuer: ${JSON.stringify(found)}`);
    return configuration;
  } catch (cause) {
    throw new ProviderFailure(cause);
  }
}

function authenticationOf({ clientSecret }: OidcConfig, client: Awaited<ReturnType<typeof loadClient>>): ClientAuth {
  if (clientSecret === undefined) return client.None();
  const [basic, post] = [client.ClientSecretBasic(clientSecret), client.ClientSecretPost(clientSecret)];
  return (server, ...request) => {
    const {
      token_endpoint_auth_methods_supported: atToken,
      introspection_endpoint_auth_methods_supported: atIntrospection,
    } = server;
    const supportsBasic = [atToken, atIntrospection].every(
      (methods) => methods?.includes('client_secret_basic') ?? true,
    );
    return (supportsBasic ? basic : post)(server, ...request);
  };
}

/** `fetch` without redirects, which could lead to a server that the operator has not named, and without long responses. */
export async function limitedFetch(url: string, options: Partial<CustomFetchOptions>): Promise<Response> {
  const response = await fetch(url, { ...options, redirect: 'manual' } as RequestInit);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxResponseBytes) throw new Error(`${url} responded with more than ${maxResponseBytes} bytes`);
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(size === 0 ? null : Buffer.concat(chunks), { status, headers });
}

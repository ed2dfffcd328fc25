import { createCachedValue } from './cached-value.ts';
import { fetchJson } from './fetch-json.ts';

/** The discovery document of an issuer (OpenID Connect Discovery). Every endpoint is an absolute http(s) URL. */
export interface ServerMetadata {
  issuer: string;
  jwks_uri: string;
  authorization_endpoint?: string;
  token_endpoint?: string;
  userinfo_endpoint?: string;
  end_session_endpoint?: string;
  device_authorization_endpoint?: string;
  introspection_endpoint?: string;
  introspection_endpoint_auth_methods_supported?: string[];
  [key: string]: unknown;
}

export interface Discovery {
  /** Throws if the issuer cannot be reached, or if its document is not valid. */
  discover(issuer: string): Promise<ServerMetadata>;
}

const maxAgeMs = 60 * 60 * 1000;
/** A failure is remembered, so that a storm of tokens does not become a storm of requests to the issuer. */
const retryMs = 5000;

/** Reads the discovery documents of issuers, and caches them. */
export function createDiscovery(now: () => number = Date.now): Discovery {
  const documents = new Map<string, ReturnType<typeof createCachedValue<ServerMetadata>>>();
  return {
    async discover(issuer) {
      let document = documents.get(issuer);
      if (document === undefined) {
        document = createCachedValue(() => readMetadata(issuer), { maxAgeMs, retryMs, now });
        documents.set(issuer, document);
      }
      return await document.get();
    },
  };
}

async function readMetadata(issuer: string): Promise<ServerMetadata> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const metadata = await fetchJson(url);
  // Otherwise one issuer could speak for another.
  if (metadata.issuer !== issuer) throw new Error(`${url} is of another issuer: ${JSON.stringify(metadata.issuer)}`);
  const endpoints = Object.entries(metadata).filter(([key]) => key === 'jwks_uri' || key.endsWith('_endpoint'));
  for (const [key, value] of endpoints)
    if (!isHttpUrl(value)) throw new Error(`${url}: ${key} is no URL: ${JSON.stringify(value)}`);
  if (metadata.jwks_uri === undefined) throw new Error(`${url} has no jwks_uri`);
  return metadata as ServerMetadata;
}

function isHttpUrl(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

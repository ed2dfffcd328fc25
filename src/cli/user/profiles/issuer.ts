import { ConnectionError, type SignInOptions } from '#client';
import { CommandError, usageError } from '../errors.ts';
import { checkTransport } from './connect.ts';
import type { DeviceEndpoints } from './device-flow.ts';

type Issuer = SignInOptions['issuers'][number];

/** The part of the discovery document of an OpenID provider that the command line needs. */
export interface IssuerMetadata {
  issuer: string;
  token_endpoint: string;
  device_authorization_endpoint?: string;
  revocation_endpoint?: string;
  scopes_supported?: string[];
}

const timeoutMs = 10_000;

/** Names Bursar's own device flow for `login --issuer`. */
export const ownIssuerName = 'bursar';

/** The issuer at which the command line signs in; undefined for Bursar's own device flow. */
export function chooseIssuer({ issuers }: SignInOptions, wanted: string | undefined): Issuer | undefined {
  const usable = issuers.filter((issuer) => issuer.client_id !== null && issuer.device_authorization_endpoint !== null);
  if (wanted === undefined) return usable[0];
  if (wanted === ownIssuerName) return undefined;
  const chosen = usable.find(({ name, issuer }) => name === wanted || issuer === wanted);
  if (chosen !== undefined) return chosen;
  const names = [...usable.map(({ name }) => `"${name}"`), ownIssuerName].join(', ');
  throw usageError(`The command line cannot sign in at "${wanted}".`, `Use one of: ${names}`);
}

/** Reads the discovery document. Throws if it is not that of the issuer, because the token would go elsewhere. */
export async function discoverIssuer(issuer: string, isInsecure: boolean): Promise<IssuerMetadata> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  checkTransport(issuer, isInsecure);
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
    const metadata = (await response.json()) as IssuerMetadata;
    if (!response.ok || metadata.issuer !== issuer || typeof metadata.token_endpoint !== 'string')
      throw new CommandError('failure', `${url} is not the discovery document of ${issuer}.`, 'Tell the operators.');
    // Codes and tokens go to these.
    for (const endpoint of [metadata.token_endpoint, metadata.revocation_endpoint])
      if (endpoint !== undefined) checkTransport(endpoint, isInsecure);
    return metadata;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new ConnectionError(issuer, error);
  }
}

/** The endpoints of an issuer. `offline_access` asks for a refresh token, where the issuer knows that scope. */
export function issuerEndpoints(chosen: Issuer, metadata: IssuerMetadata, isOffline: boolean): DeviceEndpoints {
  const wantsOffline = isOffline && metadata.scopes_supported?.includes('offline_access');
  const scopes = new Set([...chosen.scope.split(' '), ...(wantsOffline ? ['offline_access'] : [])]);
  return {
    deviceEndpoint: chosen.device_authorization_endpoint ?? '',
    tokenEndpoint: metadata.token_endpoint,
    clientId: chosen.client_id ?? '',
    scope: [...scopes].filter(Boolean).join(' '),
  };
}

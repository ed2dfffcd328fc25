import { Resolver } from 'node:dns/promises';
import { errnoCode } from '../domain/errors.ts';
import {
  type EndpointRules,
  isAllowedAddress,
  isIpAddress,
  notPublic,
  toHost,
  webhookRefused,
} from './endpoint-url.ts';

export interface ResolverOptions extends EndpointRules {
  /** DNS servers to query; if empty, those of the host. */
  nameServers: readonly string[];
}

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** Returns the IP addresses of a URL, all of them allowed, or throws `webhook_refused`. */
export type ResolveEndpoint = (url: URL, signal: AbortSignal) => Promise<ResolvedAddress[]>;

/**
 * Queries DNS directly instead of calling getaddrinfo: that would occupy one of the few libuv threads that also read files,
 * and a slow name server would block them all.
 */
export function createEndpointResolver(options: ResolverOptions): ResolveEndpoint {
  return async (url, signal) => {
    const host = toHost(url);
    if (isIpAddress(host)) {
      if (!isAllowedAddress(host, options)) throw notPublic(`${host} is not a public address`);
      return [{ address: host, family: host.includes(':') ? 6 : 4 }];
    }
    const addresses = await resolveHost(host, options.nameServers, signal);
    // Every address must be allowed: a name that also resolves to a private address is not trusted with its public one.
    // The message does not contain the address, because that would disclose internal DNS records.
    if (!addresses.every(({ address }) => isAllowedAddress(address, options)))
      throw notPublic(`${host} resolves to an address that is not public`);
    return addresses;
  };
}

async function resolveHost(
  host: string,
  nameServers: readonly string[],
  signal: AbortSignal,
): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (nameServers.length > 0) resolver.setServers(nameServers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses: ResolvedAddress[] = [
      ...(ipv4.status === 'fulfilled' ? ipv4.value : []).map((address) => ({ address, family: 4 as const })),
      ...(ipv6.status === 'fulfilled' ? ipv6.value : []).map((address) => ({ address, family: 6 as const })),
    ];
    if (addresses.length > 0) return addresses;
    const code = ipv4.status === 'rejected' ? errnoCode(ipv4.reason) : undefined;
    throw webhookRefused(notResolvedMessage(host, code ?? 'ENODATA'));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

function notResolvedMessage(host: string, code: string): string {
  return code === 'ENOTFOUND' || code === 'ENODATA'
    ? `The host ${host} does not exist. Check its name.`
    : `The name ${host} cannot be resolved (${code}). Try again later.`;
}

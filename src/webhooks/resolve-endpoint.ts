import { Resolver } from 'node:dns/promises';
import { BursarError, errnoCode } from '../domain/errors.ts';
import {
  addressNotAllowed,
  type EndpointRules,
  hostNotAllowed,
  isAllowedAddress,
  isIpAddress,
  toHost,
} from './endpoint-url.ts';

export interface ResolverOptions extends EndpointRules {
  /** DNS servers to query; if empty, those of the host. */
  nameServers: readonly string[];
}

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/**
 * Returns the IP addresses of a URL, all of them allowed. Throws `webhook_refused`, or `unavailable` if no name server
 * answers.
 */
export type ResolveEndpoint = (url: URL, signal: AbortSignal) => Promise<ResolvedAddress[]>;

/**
 * Queries DNS directly instead of calling getaddrinfo: that would occupy one of the few libuv threads that also read files,
 * and a slow name server would block them all.
 */
export function createEndpointResolver(options: ResolverOptions): ResolveEndpoint {
  return async (url, signal) => {
    const host = toHost(url);
    if (isIpAddress(host)) {
      if (!isAllowedAddress(host, options)) throw addressNotAllowed(host);
      return [{ address: host, family: host.includes(':') ? 6 : 4 }];
    }
    const addresses = await resolveHost(host, options.nameServers, signal);
    // Every address must be allowed: a name that also resolves to a private address is not trusted with its public one.
    const areAllowed = addresses.every(({ address }) => isAllowedAddress(address, options));
    if (addresses.length === 0 || !areAllowed) throw hostNotAllowed(host);
    return addresses;
  };
}

/** Returns no address if the name has none. */
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
    const failure = ipv4.status === 'rejected' ? errnoCode(ipv4.reason) : undefined;
    if (addresses.length > 0 || failure === undefined || isAnswer(failure)) return addresses;
    const message = `The name ${host} cannot be resolved at the moment. Try again later.`;
    throw new BursarError('unavailable', message, { transient: true });
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

/** Whether a name server answered that the name, or an address of it, does not exist. */
const isAnswer = (code: string) => code === 'ENOTFOUND' || code === 'ENODATA';

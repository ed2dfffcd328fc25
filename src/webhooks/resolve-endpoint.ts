import { Resolver } from 'node:dns/promises';
import {
  type EndpointRules,
  isAllowedAddress,
  isIpAddress,
  notPublicMessage,
  toHost,
  webhookRefused,
} from './endpoint-url.ts';

export interface ResolverOptions extends EndpointRules {
  /** DNS servers to ask; empty for those of the host. */
  nameServers: readonly string[];
}

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** The IP addresses behind a URL, every one of them acceptable; or `webhook_refused`. */
export type ResolveEndpoint = (url: URL, signal: AbortSignal) => Promise<ResolvedAddress[]>;

/**
 * Asks DNS itself, not the host's own list of names: a look-up through the host would occupy one of the few threads that
 * files are read with, and a slow name server would hold everything up.
 */
export function createEndpointResolver(options: ResolverOptions): ResolveEndpoint {
  return async (url, signal) => {
    const host = toHost(url);
    if (isIpAddress(host)) {
      if (!isAllowedAddress(host, options)) throw webhookRefused(notPublicMessage(host));
      return [{ address: host, family: host.includes(':') ? 6 : 4 }];
    }
    const addresses = await lookUp(host, options.nameServers, signal);
    // All of them: a name that leads to a private address as well is not to be trusted with its public one.
    const bad = addresses.find(({ address }) => !isAllowedAddress(address, options));
    // Not where it leads: names of the inside are nobody's business.
    if (bad !== undefined) throw webhookRefused(notPublicMessage(`What ${host} leads to`));
    return addresses;
  };
}

async function lookUp(host: string, nameServers: readonly string[], signal: AbortSignal): Promise<ResolvedAddress[]> {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (nameServers.length > 0) resolver.setServers(nameServers);
  const cancel = () => resolver.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found: ResolvedAddress[] = [
      ...(four.status === 'fulfilled' ? four.value : []).map((address) => ({ address, family: 4 as const })),
      ...(six.status === 'fulfilled' ? six.value : []).map((address) => ({ address, family: 6 as const })),
    ];
    if (found.length > 0) return found;
    throw webhookRefused(notFound(host, four.status === 'rejected' ? four.reason : undefined));
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

function notFound(host: string, { code = 'ENODATA' }: NodeJS.ErrnoException = new Error()): string {
  const isUnknown = code === 'ENOTFOUND' || code === 'ENODATA';
  return isUnknown
    ? `There is no host of the name ${host}. Check it.`
    : `${host} cannot be looked up (${code}). Try again.`;
}

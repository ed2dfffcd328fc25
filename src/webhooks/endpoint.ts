import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BursarError, errnoCode } from '../domain/errors.ts';

export interface EndpointRules {
  /** Whether plain `http:` is accepted. */
  allowHttp: boolean;
  /** Networks, as CIDR, that are allowed although they are not public. */
  allowNetworks: readonly string[];
  /** Networks, as CIDR, that are not allowed although they are public, or part of an allowed network. */
  denyNetworks: readonly string[];
  /** Ports that are allowed; if empty, all are. */
  allowPorts: readonly number[];
}

const maxLength = 2000;

/**
 * Parses the URL of a webhook, or throws `webhook_refused`. URL parsing normalises every spelling of an IP address (decimal,
 * octal, hexadecimal, short), so an address that is not allowed is refused here however it is written.
 */
export function parseEndpointUrl(text: string, rules: EndpointRules): URL {
  const url = text.length <= maxLength && URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw webhookRefused(`It is not a valid URL of at most ${maxLength} characters.`);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && rules.allowHttp))
    throw webhookRefused('Use an https URL.');
  if (url.username !== '' || url.password !== '')
    throw webhookRefused('Remove the user name and password: deliveries are authenticated by their signature.');
  if (url.hash !== '') throw webhookRefused('Remove the part after #: it is never sent.');
  if (url.port === '0') throw webhookRefused('Port 0 cannot be reached. Use another port.');
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  if (rules.allowPorts.length > 0 && !rules.allowPorts.includes(port))
    throw webhookRefused(`Port ${port} is not allowed. Use one of the ports ${rules.allowPorts.join(', ')}.`);
  const host = toHost(url);
  if (isIP(host) !== 0) requireAllowedAddress(host, rules);
  return url;
}

/** Returns the host of a URL as DNS and sockets expect it: IPv6 without brackets. */
function toHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/**
 * Whether deliveries to an IP address are allowed: it is public, or in a network that the configuration allows, and in none
 * that the configuration denies. An IPv4-mapped IPv6 address is judged by its IPv4 address; other tunnel and translation
 * addresses are refused.
 */
export function isAllowedAddress(
  address: string,
  { allowNetworks, denyNetworks }: Pick<EndpointRules, 'allowNetworks' | 'denyNetworks'>,
): boolean {
  const ip = ipaddr.process(address);
  if (denyNetworks.some((network) => isWithin(ip, network))) return false;
  if (allowNetworks.some((network) => isWithin(ip, network))) return true;
  // 2000::/3 is the only part of IPv6 that is assigned for global unicast.
  const isGlobal = ip.kind() === 'ipv4' || isWithin(ip, '2000::/3');
  return isGlobal && ip.range() === 'unicast';
}

/** Whether the configuration allows the network of an address explicitly. */
export function isInAllowedNetwork(address: string, { allowNetworks }: Pick<EndpointRules, 'allowNetworks'>): boolean {
  const ip = ipaddr.process(address);
  return allowNetworks.some((network) => isWithin(ip, network));
}

function isWithin(ip: ipaddr.IPv4 | ipaddr.IPv6, network: string): boolean {
  const [base, bits] = ipaddr.parseCIDR(network);
  return ip.kind() === base.kind() && ip.match(base as ipaddr.IPv4 & ipaddr.IPv6, bits);
}

function requireAllowedAddress(address: string, rules: EndpointRules): void {
  if (isAllowedAddress(address, rules)) return;
  throw webhookRefused(`${address} is not a public address, or its network is not allowed. ${addressAdvice}`);
}

/**
 * Says the same about a name that does not exist and about a name with addresses that are not allowed: otherwise users could
 * find out which names exist in the internal DNS.
 */
function hostNotAllowed(host: string): BursarError {
  return webhookRefused(
    `The host ${host} does not exist, or not all of its addresses are public and allowed. ${addressAdvice}`,
  );
}

const addressAdvice = 'Use a host that can be reached from the internet, or ask the operator to allow its network.';

function webhookRefused(reason: string): BursarError {
  return new BursarError('webhook_refused', `Events cannot be sent to this URL. ${reason}`);
}

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
    const family = isIP(host) as 0 | 4 | 6;
    if (family !== 0) {
      requireAllowedAddress(host, options);
      return [{ address: host, family }];
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

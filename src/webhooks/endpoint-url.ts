import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BursarError } from '../domain/errors.ts';

export interface EndpointRules {
  /** Whether plain `http:` is accepted. */
  allowHttp: boolean;
  /** Networks, as CIDR, that are allowed although they are not public. */
  allowNetworks: readonly string[];
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
  const host = toHost(url);
  if (isIpAddress(host) && !isAllowedAddress(host, rules)) throw notPublic(`${host} is not a public address`);
  return url;
}

/** Returns the host of a URL as DNS and sockets expect it: IPv6 without brackets. */
export function toHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

export function isIpAddress(host: string): boolean {
  return isIP(host) !== 0;
}

/**
 * Whether deliveries to an IP address are allowed: it is public, or in a network that the configuration allows. An IPv4-mapped
 * IPv6 address is judged by its IPv4 address; other tunnel and translation addresses are refused.
 */
export function isAllowedAddress(address: string, { allowNetworks }: Pick<EndpointRules, 'allowNetworks'>): boolean {
  const ip = ipaddr.process(address);
  if (allowNetworks.some((network) => isWithin(ip, network))) return true;
  // 2000::/3 is the only part of IPv6 that is assigned for global unicast.
  const isGlobal = ip.kind() === 'ipv4' || isWithin(ip, '2000::/3');
  return isGlobal && ip.range() === 'unicast';
}

function isWithin(ip: ipaddr.IPv4 | ipaddr.IPv6, network: string): boolean {
  const [base, bits] = ipaddr.parseCIDR(network);
  return ip.kind() === base.kind() && ip.match(base as ipaddr.IPv4 & ipaddr.IPv6, bits);
}

export function notPublic(problem: string): BursarError {
  return webhookRefused(
    `${problem}. Use one that can be reached from the internet, or ask the operator to allow its network.`,
  );
}

export function webhookRefused(reason: string): BursarError {
  return new BursarError('webhook_refused', `Events cannot be sent to this URL. ${reason}`);
}

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BursarError } from '../domain/errors.ts';

export interface EndpointRules {
  /** Whether plain `http:` will do. */
  allowHttp: boolean;
  /** Networks, as CIDR, that may be reached although they are not public. */
  allowNetworks: readonly string[];
}

const mostLength = 2000;

/**
 * The address to send to, as a URL; or `webhook_refused`. Whatever way an IP address is spelt (decimal, octal, hexadecimal,
 * short), the URL has it in its one plain form, and one that is not acceptable is refused here.
 */
export function parseEndpointUrl(text: string, rules: EndpointRules): URL {
  const url = text.length <= mostLength && URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw webhookRefused(`It is not a URL of at most ${mostLength} characters.`);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && rules.allowHttp))
    throw webhookRefused('Use an https address.');
  if (url.username !== '' || url.password !== '')
    throw webhookRefused('Leave out user and password: deliveries are signed.');
  if (url.hash !== '') throw webhookRefused('Leave out the part after #: it is never sent.');
  if (url.port === '0') throw webhookRefused('Port 0 cannot be reached.');
  const host = toHost(url);
  if (isIpAddress(host) && !isAllowedAddress(host, rules)) throw webhookRefused(notPublicMessage(host));
  return url;
}

/** The host of a URL as DNS and sockets take it: IPv6 without its brackets. */
export function toHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

export function isIpAddress(host: string): boolean {
  return isIP(host) !== 0;
}

/**
 * Whether something may be sent to an IP address: a public one, or one of the networks that the configuration allows. An
 * IPv4 address inside an IPv6 one is judged as what it is; other tunnels and translations are refused as a whole.
 */
export function isAllowedAddress(address: string, { allowNetworks }: Pick<EndpointRules, 'allowNetworks'>): boolean {
  const ip = ipaddr.process(address);
  if (allowNetworks.some((network) => isWithin(ip, network))) return true;
  // Of IPv6 this much is given out for the public to use; the rest has some other purpose, or none yet.
  const isGlobal = ip.kind() === 'ipv4' || isWithin(ip, '2000::/3');
  return isGlobal && ip.range() === 'unicast';
}

function isWithin(ip: ipaddr.IPv4 | ipaddr.IPv6, network: string): boolean {
  const [base, bits] = ipaddr.parseCIDR(network);
  return ip.kind() === base.kind() && ip.match(base as ipaddr.IPv4 & ipaddr.IPv6, bits);
}

export function notPublicMessage(what: string): string {
  return `${what} is not a public address. Use one that can be reached from the internet, or ask the operator.`;
}

export function webhookRefused(why: string): BursarError {
  return new BursarError('webhook_refused', `Events cannot be sent there. ${why}`);
}

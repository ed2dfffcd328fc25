import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BursarError } from '../domain/errors.ts';

export interface AddressRules {
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
export function readAddress(text: string, rules: AddressRules): URL {
  const url = text.length <= mostLength && URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw refused(`It is not a URL of at most ${mostLength} characters.`);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && rules.allowHttp))
    throw refused('Use an https address.');
  if (url.username !== '' || url.password !== '') throw refused('Leave out user and password: deliveries are signed.');
  if (url.hash !== '') throw refused('Leave out the part after #: it is never sent.');
  if (url.port === '0') throw refused('Port 0 cannot be reached.');
  const host = hostOf(url);
  if (isIpAddress(host) && !isAllowed(host, rules)) throw refused(notPublic(host));
  return url;
}

/** The host of a URL as DNS and sockets take it: IPv6 without its brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

export function isIpAddress(host: string): boolean {
  return isIP(host) !== 0;
}

/**
 * Whether something may be sent to an IP address: a public one, or one of the networks that the configuration allows. An
 * IPv4 address inside an IPv6 one is judged as what it is; other tunnels and translations are refused as a whole.
 */
export function isAllowed(address: string, { allowNetworks }: Pick<AddressRules, 'allowNetworks'>): boolean {
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

export function notPublic(what: string): string {
  return `${what} is not a public address. Use one that can be reached from the internet, or ask the operator.`;
}

export function refused(why: string): BursarError {
  return new BursarError('webhook_refused', `Events cannot be sent there. ${why}`);
}

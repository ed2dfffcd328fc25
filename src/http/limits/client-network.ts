import ipaddr from 'ipaddr.js';

/** The length of the prefix that a provider gives to one customer: a single host can use every address in it. */
const ipv6PrefixBits = 64;

/**
 * The network that a client is counted by: an IPv4 address, also if it is written as an IPv4-mapped IPv6 address, or the /64 of
 * an IPv6 address. Text that is no address, which a proxy may send, is a network of its own.
 */
export function networkOf(address: string): string {
  // Most addresses are IPv4, and need no parser.
  if (!address.includes(':') || !ipaddr.IPv6.isValid(address)) return address;
  const ipv6 = ipaddr.IPv6.parse(address);
  if (ipv6.isIPv4MappedAddress()) return ipv6.toIPv4Address().toString();
  const prefix = ipv6.parts.slice(0, ipv6PrefixBits / 16).map((part) => part.toString(16));
  return `${prefix.join(':')}::/${ipv6PrefixBits}`;
}

import { createSocket } from 'node:dgram';
import type { AddressInfo } from 'node:net';
import { isIPv6 } from 'node:net';

export interface DnsServer {
  /** As in the configuration: `address:port`. */
  address: string;
  /** The received queries: type and name, such as `A one.test`. */
  queries: string[];
  close(): Promise<void>;
}

const types: Record<number, string> = { 1: 'A', 28: 'AAAA' };

/** Starts a real name server. It calls `resolve` for every query; an empty result is answered with NXDOMAIN. */
export async function startDnsServer(resolve: (name: string, type: string) => string[]): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const queries: string[] = [];
  socket.on('message', (query, peer) => {
    const { name, end } = parseName(query);
    const type = types[query.readUInt16BE(end)] ?? '';
    queries.push(`${type} ${name}`);
    const addresses = resolve(name, type).filter((address) => isIPv6(address) === (type === 'AAAA'));
    socket.send(toResponse(query.subarray(0, end + 4), addresses), peer.port, peer.address);
  });
  await new Promise<void>((bound) => {
    socket.bind(0, '127.0.0.1', bound);
  });
  return {
    address: `127.0.0.1:${(socket.address() as AddressInfo).port}`,
    queries,
    close: () =>
      new Promise((closed) => {
        socket.close(() => closed());
      }),
  };
}

/** Returns the name of the first question, and the offset of its type. */
function parseName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let offset = 12;
  for (let length = query[offset] ?? 0; length > 0; length = query[offset] ?? 0) {
    labels.push(query.toString('latin1', offset + 1, offset + 1 + length));
    offset += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: offset + 1 };
}

function toResponse(question: Buffer, addresses: string[]): Buffer {
  const header = Buffer.from(question.subarray(0, 12));
  // Flags: response, recursion available; NOERROR or NXDOMAIN.
  header.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, question.subarray(12), ...addresses.map(toRecord)]);
}

function toRecord(address: string): Buffer {
  const bytes = isIPv6(address) ? toIpv6Bytes(address) : Buffer.from(address.split('.').map(Number));
  const fixed = Buffer.alloc(12);
  // A pointer to the name of the question, the type, class IN, TTL 0.
  fixed.writeUInt16BE(0xc00c, 0);
  fixed.writeUInt16BE(bytes.length === 4 ? 1 : 28, 2);
  fixed.writeUInt16BE(1, 4);
  fixed.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([fixed, bytes]);
}

function toIpv6Bytes(address: string): Buffer {
  const [left = '', right = ''] = address.split('::');
  const groups = (part: string) => (part === '' ? [] : part.split(':'));
  const missing = 8 - groups(left).length - groups(right).length;
  const all = [...groups(left), ...(address.includes('::') ? Array(missing).fill('0') : []), ...groups(right)];
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex');
}

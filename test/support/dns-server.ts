import { createSocket } from 'node:dgram';
import type { AddressInfo } from 'node:net';
import { isIPv6 } from 'node:net';

export interface DnsServer {
  /** As it is configured: `address:port`. */
  address: string;
  /** The names that were asked for, with their types, such as `A one.test`. */
  queries: string[];
  close(): Promise<void>;
}

const types: Record<number, string> = { 1: 'A', 28: 'AAAA' };

/** A real name server, for names of the test's own: `addressesOf` says what a name leads to each time it is asked. */
export async function startDnsServer(addressesOf: (name: string, type: string) => string[]): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (query, peer) => {
    const { name, end } = readName(query);
    const type = types[query.readUInt16BE(end)] ?? '';
    asked.push(`${type} ${name}`);
    const found = addressesOf(name, type).filter((address) => isIPv6(address) === (type === 'AAAA'));
    socket.send(response(query.subarray(0, end + 4), found), peer.port, peer.address);
  });
  await new Promise<void>((resolve) => {
    socket.bind(0, '127.0.0.1', resolve);
  });
  return {
    address: `127.0.0.1:${(socket.address() as AddressInfo).port}`,
    queries: asked,
    close: () =>
      new Promise((resolve) => {
        socket.close(() => resolve());
      }),
  };
}

/** The name of the one question, and where its type begins. */
function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

function response(question: Buffer, addresses: string[]): Buffer {
  const head = Buffer.from(question.subarray(0, 12));
  // An answer, recursion available; no error, or no such name.
  head.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  return Buffer.concat([head, question.subarray(12), ...addresses.map(record)]);
}

function record(address: string): Buffer {
  const bytes = isIPv6(address) ? sixteenBytes(address) : Buffer.from(address.split('.').map(Number));
  const fixed = Buffer.alloc(12);
  // The name of the question; its type, the internet, to be forgotten at once.
  fixed.writeUInt16BE(0xc00c, 0);
  fixed.writeUInt16BE(bytes.length === 4 ? 1 : 28, 2);
  fixed.writeUInt16BE(1, 4);
  fixed.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([fixed, bytes]);
}

function sixteenBytes(address: string): Buffer {
  const [left = '', right = ''] = address.split('::');
  const groups = (part: string) => (part === '' ? [] : part.split(':'));
  const missing = 8 - groups(left).length - groups(right).length;
  const all = [...groups(left), ...(address.includes('::') ? Array(missing).fill('0') : []), ...groups(right)];
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex');
}

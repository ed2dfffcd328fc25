import { once } from 'node:events';
import { connect } from 'node:net';
import type { ApiResponse } from './api.ts';

export type HeaderLine = readonly [name: string, value: string];

export interface RawRequest {
  method?: string;
  path: string;
  headers?: readonly HeaderLine[];
  body?: string | Uint8Array;
}

/** A connection on which exactly what is written is sent, well-formed or not. */
export interface RawConnection {
  /** Resolves when all of it has been sent, or cannot be. Nothing is read before answers are asked for. */
  write(...parts: (string | Uint8Array)[]): Promise<void>;
  /** Says that nothing more will come, and still listens. */
  end(): void;
  /** Breaks off. */
  destroy(): void;
  /** So many whole answers, or fewer when the server closes the connection before; then it is closed here too. */
  readResponses(count: number): Promise<ApiResponse[]>;
  /** All the answers until the server closes the connection. */
  readUntilClosed(): Promise<ApiResponse[]>;
}

export async function openRawConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, 'connect');
  let received = '';
  // A server may reset a connection that it has answered; what counts is what it said before.
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    for (const event of ['end', 'close']) socket.once(event, () => resolve());
  });
  socket.setEncoding('latin1');

  async function answers(count: number) {
    socket.on('data', (text: string) => {
      received += text;
    });
    const enough = new Promise<void>((resolve) => {
      const look = () => {
        if (parseResponses(received).whole.length >= count) resolve();
      };
      socket.on('data', look);
      look();
    });
    await Promise.race([enough, closed]);
    socket.destroy();
    const { whole, rest } = parseResponses(received);
    if (rest !== '') throw new Error(`this is not a whole HTTP answer: ${JSON.stringify(rest.slice(0, 200))}`);
    return whole;
  }

  return {
    write: async (...parts) => {
      const sent = parts.map((part) => new Promise((resolve) => socket.write(part, resolve)));
      await Promise.all(sent);
    },
    end: () => {
      socket.end();
    },
    destroy: () => {
      socket.destroy();
    },
    readResponses: answers,
    readUntilClosed: () => answers(Number.POSITIVE_INFINITY),
  };
}

/** The head of a request, up to the empty line. Values are sent as they are, in UTF-8. */
export function formatRequestHead({ method = 'GET', path, headers = [] }: Omit<RawRequest, 'body'>): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: bursar', ...headers.map(([name, value]) => `${name}: ${value}`)];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}

/** One request, other than HEAD, on a connection of its own; path and headers go out as they are written here. */
export async function sendRawRequest(url: string, request: RawRequest): Promise<ApiResponse> {
  const { method = 'GET', path, headers = [], body = '' } = request;
  const bytes = Buffer.from(body);
  const said = (name: string) => headers.some(([given]) => given.toLowerCase() === name);
  const needsLength = bytes.length > 0 && !said('content-length') && !said('transfer-encoding');
  const length: HeaderLine[] = needsLength ? [['content-length', String(bytes.length)]] : [];
  const wire = await openRawConnection(url);
  wire.write(formatRequestHead({ method, path, headers: [...headers, ...length] }), bytes);
  const [answer] = await wire.readResponses(1);
  if (answer === undefined) throw new Error(`no answer to ${method} ${path.slice(0, 80)}`);
  return answer;
}

/** The answers in what a connection said, and what is left when the last one is not whole or not HTTP. */
function parseResponses(received: string): { whole: ApiResponse[]; rest: string } {
  const whole: ApiResponse[] = [];
  let rest = received;
  for (;;) {
    const [head, status, lines = ''] = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? [];
    if (head === undefined) return { whole, rest };
    const headers = new Headers();
    for (const line of lines.split('\r\n').filter(Boolean)) {
      const colon = line.indexOf(':');
      headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
    }
    const content = parseContent(rest.slice(head.length), headers);
    if (content === undefined) return { whole, rest };
    const text = Buffer.from(content.data, 'latin1').toString('utf8');
    const isJson = text !== '' && /json/.test(headers.get('content-type') ?? '');
    whole.push({ status: Number(status), headers, text, body: isJson ? JSON.parse(text) : undefined });
    rest = rest.slice(head.length + content.length);
  }
}

/** The content at the beginning of what follows a head, and how long it is on the wire; undefined until it is whole. */
function parseContent(rest: string, headers: Headers): { data: string; length: number } | undefined {
  if (headers.get('transfer-encoding') !== 'chunked') {
    const length = Number(headers.get('content-length') ?? '0');
    return rest.length < length ? undefined : { data: rest.slice(0, length), length };
  }
  let data = '';
  let length = 0;
  for (;;) {
    const [line, size] = /^([0-9a-f]+)\r\n/i.exec(rest.slice(length)) ?? [];
    if (line === undefined) return undefined;
    const bytes = Number.parseInt(size ?? '', 16);
    const end = length + line.length + bytes + 2;
    if (rest.length < end) return undefined;
    data += rest.slice(length + line.length, end - 2);
    length = end;
    if (bytes === 0) return { data, length };
  }
}

/** The header that carries a token. */
export function bearerHeader(token: string): HeaderLine {
  return ['authorization', `Bearer ${token}`];
}

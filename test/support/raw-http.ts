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

/** A TCP connection that sends exactly the given bytes, valid HTTP or not. */
export interface RawConnection {
  /** Resolves when everything was sent or has failed. Nothing is read before `readResponses` or `readUntilClosed`. */
  write(...parts: (string | Uint8Array)[]): Promise<void>;
  /** Half-closes the connection: responses can still be read. */
  end(): void;
  /** Closes the connection at once. */
  destroy(): void;
  /** Reads this many complete responses, or fewer if the server closes the connection. Then closes the connection. */
  readResponses(count: number): Promise<ApiResponse[]>;
  /** Reads all responses until the server closes the connection. */
  readUntilClosed(): Promise<ApiResponse[]>;
}

export async function openRawConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, 'connect');
  let received = '';
  // The server may reset the connection after its response.
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    for (const event of ['end', 'close']) socket.once(event, () => resolve());
  });
  socket.setEncoding('latin1');

  async function readResponses(count: number) {
    socket.on('data', (text: string) => {
      received += text;
    });
    const enough = new Promise<void>((resolve) => {
      const checkCount = () => {
        if (parseResponses(received).responses.length >= count) resolve();
      };
      socket.on('data', checkCount);
      checkCount();
    });
    await Promise.race([enough, closed]);
    socket.destroy();
    const { responses, rest } = parseResponses(received);
    if (rest !== '') throw new Error(`not a complete HTTP response: ${JSON.stringify(rest.slice(0, 200))}`);
    return responses;
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
    readResponses,
    readUntilClosed: () => readResponses(Number.POSITIVE_INFINITY),
  };
}

/** Formats the head of a request, up to the empty line. Values are not escaped; they are sent in UTF-8. */
export function formatRequestHead({ method = 'GET', path, headers = [] }: Omit<RawRequest, 'body'>): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: bursar', ...headers.map(([name, value]) => `${name}: ${value}`)];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}

/** Sends a request, other than HEAD, on a new connection. Path and headers are not escaped. */
export async function sendRawRequest(url: string, request: RawRequest): Promise<ApiResponse> {
  const { method = 'GET', path, headers = [], body = '' } = request;
  const bytes = Buffer.from(body);
  const hasHeader = (name: string) => headers.some(([header]) => header.toLowerCase() === name);
  const needsLength = bytes.length > 0 && !hasHeader('content-length') && !hasHeader('transfer-encoding');
  const length: HeaderLine[] = needsLength ? [['content-length', String(bytes.length)]] : [];
  const connection = await openRawConnection(url);
  connection.write(formatRequestHead({ method, path, headers: [...headers, ...length] }), bytes);
  const [response] = await connection.readResponses(1);
  if (response === undefined) throw new Error(`no response to ${method} ${path.slice(0, 80)}`);
  return response;
}

/** Parses the complete responses. `rest` is not empty if the last one is incomplete or not HTTP. */
function parseResponses(received: string): { responses: ApiResponse[]; rest: string } {
  const responses: ApiResponse[] = [];
  let rest = received;
  for (;;) {
    const [head, status, lines = ''] = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? [];
    if (head === undefined) return { responses, rest };
    const headers = new Headers();
    for (const line of lines.split('\r\n').filter(Boolean)) {
      const colon = line.indexOf(':');
      headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
    }
    const content = parseContent(rest.slice(head.length), headers);
    if (content === undefined) return { responses, rest };
    const text = Buffer.from(content.data, 'latin1').toString('utf8');
    const isJson = text !== '' && /json/.test(headers.get('content-type') ?? '');
    responses.push({ status: Number(status), headers, text, body: isJson ? JSON.parse(text) : undefined });
    rest = rest.slice(head.length + content.length);
  }
}

/** Parses the content after a head. Returns it with its encoded length, or undefined if it is incomplete. */
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

/** The Authorization header for a token. */
export function bearerHeader(token: string): HeaderLine {
  return ['authorization', `Bearer ${token}`];
}

import { once } from 'node:events';
import { connect } from 'node:net';
import type { Answer } from './api.ts';

export type HeaderLine = readonly [name: string, value: string];

export interface WireRequest {
  method?: string;
  path: string;
  headers?: readonly HeaderLine[];
  body?: string | Uint8Array;
}

/** A connection on which exactly what is written is sent, well-formed or not. */
export interface Wire {
  write(...parts: (string | Uint8Array)[]): void;
  /** Says that nothing more will come, and still listens. */
  end(): void;
  /** Breaks off. */
  destroy(): void;
  /** Everything that was answered until the server closed the connection, as text of single bytes. */
  closed(): Promise<string>;
  received(): string;
}

export async function openWire(url: string): Promise<Wire> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, 'connect');
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  // A server may reset a connection that it has answered; what counts is what it said before.
  socket.on('error', () => undefined);
  const closed = Promise.race([once(socket, 'end'), once(socket, 'close')]);
  return {
    write: (...parts) => {
      for (const part of parts) socket.write(part);
    },
    end: () => {
      socket.end();
    },
    destroy: () => {
      socket.destroy();
    },
    closed: async () => {
      await closed;
      socket.destroy();
      return received;
    },
    received: () => received,
  };
}

/** The head of a request, up to the empty line. Header values are sent as they are; text beyond latin1 as UTF-8. */
export function headOf({ method = 'GET', path, headers = [] }: Omit<WireRequest, 'body'>): Buffer {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: bursar', ...headers.map(([name, value]) => `${name}: ${value}`)];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}

/** One request on a connection of its own; the path and the headers go out as they are written here. */
export async function ask(url: string, request: WireRequest): Promise<Answer> {
  const { body = '' } = request;
  const bytes = Buffer.from(body);
  const said = (name: string) => (request.headers ?? []).some(([given]) => given.toLowerCase() === name);
  const length: HeaderLine[] =
    bytes.length === 0 || said('content-length') || said('transfer-encoding')
      ? []
      : [['content-length', String(bytes.length)]];
  const headers = [...(request.headers ?? []), ...length, ['connection', 'close'] as const];
  const wire = await openWire(url);
  wire.write(headOf({ ...request, headers }), bytes);
  const [answer, ...more] = answersIn(await wire.closed());
  if (answer === undefined) throw new Error(`no answer to ${request.method ?? 'GET'} ${request.path.slice(0, 80)}`);
  if (more.length > 0) throw new Error(`${more.length} answers too many to ${request.path.slice(0, 80)}`);
  return answer;
}

/** The answers in what a connection said. Throws when that is not HTTP, or when an answer is not whole. */
export function answersIn(received: string): Answer[] {
  const answers: Answer[] = [];
  let rest = received;
  while (rest !== '') {
    const [, status, head = ''] = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? [];
    if (status === undefined) throw new Error(`this is not an HTTP answer: ${JSON.stringify(rest.slice(0, 200))}`);
    const headers = new Headers();
    for (const line of head.split('\r\n').filter(Boolean)) {
      const colon = line.indexOf(':');
      headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
    }
    const start = rest.indexOf('\r\n\r\n') + 4;
    const length = Number(headers.get('content-length') ?? '0');
    if (rest.length < start + length) throw new Error(`the answer breaks off: ${JSON.stringify(rest.slice(0, 200))}`);
    const text = Buffer.from(rest.slice(start, start + length), 'latin1').toString('utf8');
    const isJson = text !== '' && /json/.test(headers.get('content-type') ?? '');
    answers.push({ status: Number(status), headers, text, body: isJson ? JSON.parse(text) : undefined });
    rest = rest.slice(start + length);
  }
  return answers;
}

/** The header that carries a token. */
export function bearer(token: string): HeaderLine {
  return ['authorization', `Bearer ${token}`];
}

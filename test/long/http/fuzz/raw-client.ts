import { connect, type Socket } from 'node:net';
import type { FuzzRequest } from './generate-request.ts';

/** Like `ApiResponse`. A map of headers takes a fraction of the time that `Headers` takes. */
export interface FuzzResponse<T = unknown> {
  status: number;
  /** By name in lower case. */
  headers: ReadonlyMap<string, string>;
  text: string;
  body: T;
}

/** Long enough for every request on a busy machine. */
const timeoutMs = 60_000;

/**
 * A keep-alive connection that sends exactly the given headers, which clients of Node would refuse. It opens a new
 * connection if the server has closed the last one. A stream of events counts as complete after its head.
 */
export function createRawClient(url: string) {
  const { hostname, port } = new URL(url);
  let socket: Socket | undefined;

  function open(): Socket {
    const opened = connect(Number(port), hostname).setNoDelay(true);
    // The server may reset a connection after it has rejected a request.
    opened.on('error', () => undefined);
    opened.once('close', () => {
      if (socket === opened) socket = undefined;
    });
    socket = opened;
    return opened;
  }

  return {
    async send(request: FuzzRequest): Promise<FuzzResponse> {
      const current = socket ?? open();
      const response = await exchange(current, request);
      if (response.isLast) {
        socket = undefined;
        current.destroy();
      }
      return response;
    },
    close: () => socket?.destroy(),
  };
}

function exchange(socket: Socket, request: FuzzRequest): Promise<FuzzResponse & { isLast: boolean }> {
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    let hasEnded = false;
    const timer = setTimeout(() => finish(new Error('no complete response')), timeoutMs);
    const finish = (result: Error | (FuzzResponse & { isLast: boolean })) => {
      clearTimeout(timer);
      socket.off('data', onData).off('close', onClose).off('end', onClose);
      if (result instanceof Error) {
        socket.destroy();
        reject(result);
      } else resolve({ ...result, isLast: result.isLast || hasEnded });
    };
    const tryParse = () => {
      const response = parseResponse(received, request.method === 'HEAD', hasEnded);
      if (response !== undefined) finish(response);
      else if (hasEnded) finish(new Error(`incomplete response: ${received.toString('latin1').slice(0, 300)}`));
    };
    const onData = (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      tryParse();
    };
    const onClose = () => {
      hasEnded = true;
      tryParse();
    };
    socket.on('data', onData).on('close', onClose).on('end', onClose);
    socket.write(formatRequest(request));
  });
}

export function formatRequest({ method, target, headers, body, framing }: FuzzRequest): Buffer {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    'host: bursar',
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  if (framing === 'close') lines.push('connection: close');
  if (framing === 'chunked') lines.push('transfer-encoding: chunked');
  else if (body.length > 0) lines.push(`content-length: ${body.length}`);
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  if (framing !== 'chunked') return Buffer.concat([head, body]);
  const chunk = body.length === 0 ? [] : [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')];
  return Buffer.concat([head, ...chunk, Buffer.from('0\r\n\r\n')]);
}

/** Undefined while the response is incomplete. */
function parseResponse(
  bytes: Buffer,
  isHead: boolean,
  hasEnded: boolean,
): (FuzzResponse & { isLast: boolean }) | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const status = Number(statusLine.slice(9, 12));
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const rest = bytes.subarray(headEnd + 4);
  const isStream = headers.get('content-type') === 'text/event-stream';
  const content = isHead || isStream || status === 204 || status === 304 ? '' : parseContent(rest, headers, hasEnded);
  if (content === undefined) return undefined;
  const isJson = content !== '' && /json/.test(headers.get('content-type') ?? '');
  const isLast = isStream || headers.get('connection') === 'close';
  return { status, headers, text: content, body: isJson ? JSON.parse(content) : undefined, isLast };
}

function parseContent(rest: Buffer, headers: ReadonlyMap<string, string>, hasEnded: boolean): string | undefined {
  if (headers.get('transfer-encoding') === 'chunked') return parseChunks(rest);
  const length = headers.get('content-length');
  if (length === undefined) return hasEnded ? rest.toString() : undefined;
  return rest.length < Number(length) ? undefined : rest.toString('utf8', 0, Number(length));
}

function parseChunks(bytes: Buffer): string | undefined {
  const chunks: Buffer[] = [];
  for (let offset = 0; ; ) {
    const lineEnd = bytes.indexOf('\r\n', offset);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', offset, lineEnd), 16);
    const end = lineEnd + 2 + size + 2;
    if (bytes.length < end) return undefined;
    if (size === 0) return Buffer.concat(chunks).toString();
    chunks.push(bytes.subarray(lineEnd + 2, end - 2));
    offset = end;
  }
}

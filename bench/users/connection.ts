import { connect } from 'node:net';

/** A keep-alive connection with one request in flight. */
export interface Connection {
  /** Sends the bytes of a request. Resolves with the status when the whole response has arrived. */
  send(request: Buffer): Promise<number>;
  close(): void;
}

const headEnd = Buffer.from('\r\n\r\n');

/**
 * Opens a connection that reads only the status and the length of a response. The clients of `node:http` and autocannon
 * take more CPU time for a response than a bare `node:http` server, so that they would be measured instead of it.
 */
export function openConnection(url: string): Connection {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let pending: { resolve(status: number): void; reject(error: Error): void } | undefined;
  let head: Buffer | undefined;
  let response: { status: number; remaining: number } | undefined;
  let isClosing = false;

  function receive(chunk: Buffer): void {
    if (response === undefined) {
      head = head === undefined ? chunk : Buffer.concat([head, chunk]);
      const end = head.indexOf(headEnd);
      if (end < 0) return;
      const { status, length } = parseHead(head.toString('latin1', 0, end));
      response = { status, remaining: length - (head.length - end - headEnd.length) };
      head = undefined;
    } else response.remaining -= chunk.length;
    if (response.remaining > 0) return;
    const { status } = response;
    response = undefined;
    pending?.resolve(status);
  }

  const fail = (error: Error) => pending?.reject(error);
  socket.on('data', receive);
  socket.on('error', fail);
  socket.on('close', () => {
    if (!isClosing) fail(new Error(`${url} closed the connection`));
  });
  return {
    send: (request) =>
      new Promise((resolve, reject) => {
        pending = { resolve, reject };
        socket.write(request);
      }),
    close() {
      isClosing = true;
      socket.destroy();
    },
  };
}

/** Connections that are used again. */
export interface ConnectionPool {
  /** Sends a request on an idle connection, or opens one. */
  send(request: Buffer): Promise<number>;
  close(): void;
}

/** Less than the time after which a server closes an idle connection. */
const maxIdleMs = 1000;

export function createConnectionPool(url: string): ConnectionPool {
  let idle: { connection: Connection; since: number }[] = [];
  function close(): void {
    for (const { connection } of idle) connection.close();
    idle = [];
  }
  function take(): Connection {
    const last = idle.pop();
    if (last === undefined) return openConnection(url);
    if (performance.now() - last.since < maxIdleMs) return last.connection;
    // The others have been idle even longer.
    last.connection.close();
    close();
    return openConnection(url);
  }
  return {
    async send(request) {
      const connection = take();
      const status = await connection.send(request);
      idle.push({ connection, since: performance.now() });
      return status;
    },
    close,
  };
}

function parseHead(head: string): { status: number; length: number } {
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
  if (length === undefined) throw new Error(`the response has no Content-Length: ${head}`);
  return { status: Number(head.slice(9, 12)), length: Number(length) };
}

/** Builds the bytes of a request. */
export function buildRequest(url: string, { method = 'GET', path, token, headers = {}, body }: RequestParts): Buffer {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${new URL(url).host}`,
    ...(token === undefined ? [] : [`authorization: Bearer ${token}`]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : [`content-length: ${body.length}`]),
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), body ?? Buffer.alloc(0)]);
}

export interface RequestParts {
  method?: string;
  path: string;
  token?: string;
  headers?: Record<string, string>;
  body?: Buffer;
}

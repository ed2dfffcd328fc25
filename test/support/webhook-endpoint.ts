import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { PublicEvent } from './event-stream.ts';
import { until } from './until.ts';

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** Null means that the request is never answered. */
export type EndpointResponse = { status: number; location?: string; body?: string } | null;

export interface TestEndpoint {
  url: string;
  port: number;
  requests: ReceivedRequest[];
  events(): PublicEvent[];
  /** Sets the response to later requests. */
  respondWith(respond: (request: ReceivedRequest, count: number) => EndpointResponse): void;
  waitForRequests(count: number, timeoutSeconds?: number): Promise<ReceivedRequest[]>;
  close(): Promise<void>;
}

export interface EndpointOptions {
  host?: string;
  port?: number;
  /** Serves https with this certificate. */
  tls?: { key: string; cert: string };
}

/** Starts a real HTTP server for webhooks. It answers 204 until `respondWith` is called. */
export async function startEndpoint({
  host = '127.0.0.1',
  port = 0,
  tls,
}: EndpointOptions = {}): Promise<TestEndpoint> {
  const requests: ReceivedRequest[] = [];
  let respond: (request: ReceivedRequest, count: number) => EndpointResponse = () => ({ status: 204 });
  const listener: RequestListener = async (request, response) => {
    const body = await text(request).catch(() => null);
    if (body === null) return;
    const received = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body };
    requests.push(received);
    const reply = respond(received, requests.length);
    if (reply === null) return;
    response.writeHead(reply.status, reply.location === undefined ? {} : { location: reply.location });
    response.end(reply.body);
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen(port, host, resolve);
  });
  const { port: boundPort } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${boundPort}`,
    port: boundPort,
    requests,
    events: () => requests.map(({ body }) => JSON.parse(body) as PublicEvent),
    respondWith: (next) => {
      respond = next;
    },
    waitForRequests: (count, timeoutSeconds) =>
      until(`${count} deliveries`, () => (requests.length >= count ? requests : undefined), timeoutSeconds),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

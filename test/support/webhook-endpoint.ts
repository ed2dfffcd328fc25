import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { PublicEvent } from './event-stream.ts';
import { until } from './until.ts';

/** A delivery as it arrives. */
export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** How to answer: a status, with a Location where it is a redirect; null for not at all. */
export type EndpointResponse = { status: number; location?: string; body?: string } | null;

export interface TestEndpoint {
  url: string;
  port: number;
  requests: ReceivedRequest[];
  events(): PublicEvent[];
  /** Decides what is answered from now on. */
  respondWith(reaction: (request: ReceivedRequest, count: number) => EndpointResponse): void;
  waitForRequests(count: number, patienceSeconds?: number): Promise<ReceivedRequest[]>;
  close(): Promise<void>;
}

export interface EndpointOptions {
  host?: string;
  port?: number;
  /** For https. */
  tls?: { key: string; cert: string };
}

/** A real server that webhooks are sent to. It takes everything, until it is told otherwise. */
export async function startEndpoint({
  host = '127.0.0.1',
  port = 0,
  tls,
}: EndpointOptions = {}): Promise<TestEndpoint> {
  const received: ReceivedRequest[] = [];
  let reaction: (request: ReceivedRequest, count: number) => EndpointResponse = () => ({ status: 204 });
  const answer: RequestListener = async (request, response) => {
    const body = await text(request).catch(() => null);
    if (body === null) return;
    const one = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body };
    received.push(one);
    const told = reaction(one, received.length);
    if (told === null) return;
    response.writeHead(told.status, told.location === undefined ? {} : { location: told.location });
    response.end(told.body);
  };
  const server = tls ? createTlsServer(tls, answer) : createServer(answer);
  await new Promise<void>((resolve) => {
    server.listen(port, host, resolve);
  });
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${actual}`,
    port: actual,
    requests: received,
    events: () => received.map(({ body }) => JSON.parse(body) as PublicEvent),
    respondWith: (next) => {
      reaction = next;
    },
    waitForRequests: (count, patienceSeconds) =>
      until(`${count} deliveries`, () => (received.length >= count ? received : undefined), patienceSeconds),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

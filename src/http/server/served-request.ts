import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../services/identity/actor.ts';

/** A request that has ended, for the access log and the metrics. */
export interface ServedRequest {
  requestId: string;
  method: string;
  url: string;
  /** The path of the route, with the names of its parameters: `/jobs/:hpc/`. Undefined if no route has the path. */
  route: string | undefined;
  /** The status that was sent, or `abortedStatus`. */
  status: number;
  ms: number;
  /** Like `ms`, but for an event stream the time to its first byte. */
  latencyMs: number;
  /** Bytes sent, headers included. */
  bytes: number;
  /** Whether the client disconnected before the end of the response. Event streams usually end so: false for them. */
  isAborted: boolean;
  /** The id of its trace, if it is traced. */
  traceId?: string | undefined;
  /** The IP address of the client. */
  address: string;
  /** Null for a request without valid credentials. */
  caller: Pick<Caller, 'userId' | 'tokenId' | 'sessionId'> | null;
}

/** For a client that disconnected before a status was sent. The number is that of nginx. */
export const abortedStatus = 499;

/** Calls `onServed` when the response was sent, or when its client has disconnected: Fastify reports only the first. */
export function reportServed(
  request: FastifyRequest,
  reply: FastifyReply,
  onServed: (served: ServedRequest) => void,
): void {
  const { raw } = reply;
  raw.on('close', () => {
    const { firstByteMs, elapsedTime: ms } = reply;
    const { id: requestId, method, url, ip: address } = request;
    onServed({
      requestId,
      method,
      url,
      route: request.routeOptions.url,
      status: raw.headersSent ? raw.statusCode : abortedStatus,
      ms,
      latencyMs: firstByteMs ?? ms,
      bytes: takeSentBytes(request.raw.socket),
      isAborted: !raw.writableFinished && firstByteMs === undefined,
      traceId: request.span?.traceId,
      address,
      // Undefined for a path that no route can match.
      caller: request.caller ?? null,
    });
  });
}

const reportedBytes = new WeakMap<Socket, number>();

/** The bytes sent on a connection since the last call: those of one response, because responses are sent one after another. */
function takeSentBytes(socket: Socket): number {
  const total = socket.bytesWritten ?? 0;
  const bytes = total - (reportedBytes.get(socket) ?? 0);
  reportedBytes.set(socket, total);
  return bytes;
}

declare module 'fastify' {
  interface FastifyReply {
    /** When the first byte of an event stream was sent, in milliseconds since the request. */
    firstByteMs: number | undefined;
  }
}

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { requestSignal } from '../request/abort-signals.ts';
import { sendEmpty } from './send.ts';

export interface ServerSentEvent {
  /** A client that reconnects sends it as Last-Event-ID, to continue after this event. */
  id?: string;
  /** Default: `message`. */
  event?: string;
  data: string;
}

/** Proxies and clients close a connection that is silent for a minute. */
const defaultHeartbeatMs = 15_000;
/** Clients wait this long before they reconnect. */
const retryMs = 1000;

/** Formats an event. A carriage return in the data becomes a line feed, so send such data as JSON. */
export function formatEvent({ id, event, data }: ServerSentEvent): string {
  const fields = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...data.split(/\r\n|[\r\n]/).map((line) => `data: ${line}`),
  ];
  return `${fields.join('\n')}\n\n`;
}

/**
 * Sends server-sent events until the source ends. The source must end soon after its signal is aborted: the client has
 * disconnected, or `ending` is aborted: the server is closing, for example. The next event is read only when the client has
 * taken the previous ones, so a slow client needs little memory.
 */
export function sendEvents(
  reply: FastifyReply,
  ending: AbortSignal,
  source: (signal: AbortSignal) => AsyncIterable<ServerSentEvent>,
  heartbeatMs = defaultHeartbeatMs,
): FastifyReply {
  reply
    .header('content-type', 'text/event-stream')
    .header('cache-control', 'no-store')
    // Keeps nginx from buffering events.
    .header('x-accel-buffering', 'no');
  if (reply.request.method === 'HEAD') return sendEmpty(reply);

  const signal = requestSignal(reply, ending);
  const frames = new PassThrough();
  const heartbeat = setInterval(() => {
    if (frames.readableLength === 0) frames.write(':\n\n');
  }, heartbeatMs);
  frames.once('close', () => clearInterval(heartbeat));
  frames.write(`retry: ${retryMs}\n\n`);

  async function writeEvents() {
    for await (const event of source(signal)) {
      if (signal.aborted) return;
      if (!frames.write(formatEvent(event))) await once(frames, 'drain', { signal });
    }
  }
  writeEvents()
    .catch((error) => {
      if (!signal.aborted) throw error;
    })
    .then(
      () => frames.end(),
      (error) => frames.destroy(error),
    );
  return reply.send(frames);
}

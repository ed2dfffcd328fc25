import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { requestSignal } from '../server/abort-signals.ts';
import { sendEmpty } from './send-nothing.ts';

export interface ServerSentEvent {
  /** What a client sends back as Last-Event-ID, to go on after this event. */
  id?: string;
  /** Left out: `message`, which is what browsers listen for. */
  event?: string;
  data: string;
}

/** Proxies and clients give a connection up that is silent for a minute. */
const usualHeartbeatMs = 15_000;
/** How long a client waits before it connects again. */
const retryMs = 1000;

/** An event as it is sent. A carriage return ends a line too, so data that holds one is best sent as JSON. */
export function formatEvent({ id, event, data }: ServerSentEvent): string {
  const fields = [
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...data.split(/\r\n|[\r\n]/).map((line) => `data: ${line}`),
  ];
  return `${fields.join('\n')}\n\n`;
}

/**
 * Answers with server-sent events, until the source ends. It is given a signal, and must end soon after that is aborted:
 * the client has gone then, or the server is closing and the client connects again. The source is asked for its next
 * event only when the client has taken the last ones, so a slow client holds nothing but a few of them.
 */
export function sendEvents(
  reply: FastifyReply,
  closing: AbortSignal,
  source: (over: AbortSignal) => AsyncIterable<ServerSentEvent>,
  heartbeatMs = usualHeartbeatMs,
): FastifyReply {
  reply
    .header('content-type', 'text/event-stream')
    .header('cache-control', 'no-store')
    // nginx would collect events before it passes them on.
    .header('x-accel-buffering', 'no');
  if (reply.request.method === 'HEAD') return sendEmpty(reply);

  const over = requestSignal(reply, closing);
  const frames = new PassThrough();
  const heartbeat = setInterval(() => {
    if (frames.readableLength === 0) frames.write(':\n\n');
  }, heartbeatMs);
  frames.once('close', () => clearInterval(heartbeat));
  frames.write(`retry: ${retryMs}\n\n`);

  async function pump() {
    for await (const event of source(over)) {
      if (over.aborted) return;
      if (!frames.write(formatEvent(event))) await once(frames, 'drain', { signal: over });
    }
  }
  pump()
    .catch((error) => {
      if (!over.aborted) throw error;
    })
    .then(
      () => frames.end(),
      (error) => frames.destroy(error),
    );
  return reply.send(frames);
}

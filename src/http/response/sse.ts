import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { requestSignal } from '../request/open-response.ts';
import { sendEmpty } from './send.ts';

export interface ServerSentEvent {
  /** A client that reconnects sends it as Last-Event-ID, to continue after this event. */
  id?: string;
  /** Default: `message`. */
  event?: string;
  data: string;
}

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
 * taken the previous ones, so a slow client needs little memory. Heartbeats keep proxies and clients from closing a connection
 * that is silent for a minute.
 */
export function sendEvents(
  reply: FastifyReply,
  ending: AbortSignal,
  source: (signal: AbortSignal) => AsyncIterable<ServerSentEvent>,
  heartbeatMs: number,
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
  writeEvents().then(
    () => frames.end(),
    (error) => (signal.aborted ? frames.end() : frames.destroy(error)),
  );
  return reply.send(frames);
}

/** An event has complete lines. A longer line is split between two characters. */
const maxEventBytes = 32 * 1024;
const lineFeed = 0x0a;

/**
 * Turns the chunks of a log into events. The data of an event is JSON with the text of some complete lines and the offset
 * of its first byte; its id is the offset of the next byte. An incomplete line or character waits for the next chunk.
 * When the log is complete, the rest is sent, and then the event `end`.
 */
export async function* toLogEvents(
  chunks: AsyncIterable<Buffer>,
  from: number,
  isComplete: () => boolean,
): AsyncGenerator<ServerSentEvent> {
  let offset = from;
  let pending: Buffer = Buffer.alloc(0);
  const toEvent = (bytes: Buffer): ServerSentEvent => {
    const data = JSON.stringify({ offset, text: bytes.toString('utf8') });
    offset += bytes.length;
    return { id: String(offset), data };
  };
  for await (const chunk of chunks) {
    pending = Buffer.concat([pending, chunk]);
    for (let length = sendableBytes(pending); length > 0; length = sendableBytes(pending)) {
      yield toEvent(pending.subarray(0, length));
      pending = pending.subarray(length);
    }
  }
  if (!isComplete()) return;
  if (pending.length > 0) yield toEvent(pending);
  yield { id: String(offset), event: 'end', data: JSON.stringify({ offset }) };
}

/** Number of bytes that can be sent now. */
function sendableBytes(bytes: Buffer): number {
  const lines = bytes.subarray(0, maxEventBytes).lastIndexOf(lineFeed) + 1;
  if (lines > 0 || bytes.length <= maxEventBytes) return lines;
  // The end of the last complete character. Bytes that are not UTF-8 are split anywhere.
  const isContinuation = (index: number) => ((bytes[index] ?? 0) & 0xc0) === 0x80;
  for (let end = maxEventBytes; end > maxEventBytes - 4; end -= 1) if (!isContinuation(end)) return end;
  return maxEventBytes;
}

import type { ServerSentEvent } from './sse.ts';

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
  return lastCharacterEnd(bytes, maxEventBytes);
}

/** The end of the last complete character before the limit. Bytes that are not UTF-8 are split anywhere. */
function lastCharacterEnd(bytes: Buffer, limit: number): number {
  const isContinuation = (index: number) => ((bytes[index] ?? 0) & 0xc0) === 0x80;
  for (let end = limit; end > limit - 4; end -= 1) if (!isContinuation(end)) return end;
  return limit;
}

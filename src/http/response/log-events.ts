import type { ServerSentEvent } from './sse.ts';

/** An event carries whole lines, up to about so many bytes; a longer line is cut between characters. */
const maxEventBytes = 32 * 1024;
const lineEnd = 0x0a;

/**
 * What a job prints as events: each is some whole lines, as JSON with the offset of its first byte; its id is the offset
 * of the next. A line or a character that is not whole yet waits for the rest of it. When the log is over, what is left is sent, and
 * then `end`.
 */
export async function* logEvents(
  pieces: AsyncIterable<Buffer>,
  from: number,
  isOver: () => boolean,
): AsyncGenerator<ServerSentEvent> {
  let offset = from;
  let held: Buffer = Buffer.alloc(0);
  const eventOf = (bytes: Buffer): ServerSentEvent => {
    const data = JSON.stringify({ offset, text: bytes.toString('utf8') });
    offset += bytes.length;
    return { id: String(offset), data };
  };
  for await (const piece of pieces) {
    held = Buffer.concat([held, piece]);
    for (let length = readyBytes(held); length > 0; length = readyBytes(held)) {
      yield eventOf(held.subarray(0, length));
      held = held.subarray(length);
    }
  }
  if (!isOver()) return;
  if (held.length > 0) yield eventOf(held);
  yield { id: String(offset), event: 'end', data: JSON.stringify({ offset }) };
}

/** How many of these bytes can be sent. */
function readyBytes(bytes: Buffer): number {
  const lines = bytes.subarray(0, maxEventBytes).lastIndexOf(lineEnd) + 1;
  if (lines > 0 || bytes.length <= maxEventBytes) return lines;
  return wholeCharacters(bytes, maxEventBytes);
}

/** The end of the last character that begins and ends before a limit; bytes that are no UTF-8 are cut anywhere. */
function wholeCharacters(bytes: Buffer, limit: number): number {
  const isContinuation = (index: number) => ((bytes[index] ?? 0) & 0xc0) === 0x80;
  for (let end = limit; end > limit - 4; end -= 1) if (!isContinuation(end)) return end;
  return limit;
}

import { decodeText, readBytes } from './byte-stream.ts';
import { ApiError } from './errors.ts';
import type { Http } from './http.ts';
import { retryDelayMs, shouldRetry, sleep } from './retry.ts';

export interface ServerSentEvent {
  id: string;
  type: string;
  data: string;
}

export interface FollowOptions {
  path: string;
  /** Id of the last event that the caller has, or ''. */
  lastEventId: string;
  signal: AbortSignal | undefined;
  /** Called with true when the stream is open, and with false when it is interrupted. */
  onConnection?: ((isConnected: boolean) => void) | undefined;
}

/**
 * Follows a stream of server-sent events and reopens it after every interruption, at the event after the last one: none is
 * missed, none comes twice. Ends if the server says that there is nothing more (204), or when the caller stops.
 *
 * The first connection is tried as often as any request. Once there was one, reconnecting never gives up by itself: a
 * restart of the server, or a laptop that slept, must not end an observation of hours. An error that does not pass throws.
 */
export async function* followEvents(http: Http, options: FollowOptions): AsyncGenerator<ServerSentEvent> {
  let { lastEventId } = options;
  let failures = 0;
  for (let isConnected = false; ; ) {
    try {
      const response = await open(http, { ...options, lastEventId });
      isConnected = true;
      options.onConnection?.(true);
      if (response.status === 204) return;
      requireEventStream(response);
      for await (const event of parseEvents(decodeText(readBytes(response, options.signal)))) {
        lastEventId = event.id;
        failures = 0;
        yield event;
      }
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason;
      if (!isConnected || !shouldRetry(error)) throw error;
      failures++;
    }
    options.onConnection?.(false);
    await sleep(retryDelayMs(undefined, failures), options.signal);
  }
}

function open(http: Http, { path, lastEventId, signal }: FollowOptions): Promise<Response> {
  const headers = { accept: 'text/event-stream', ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }) };
  return http.send({ method: 'GET', path, headers, signal, isRepeatable: true }, async (response) => response);
}

/** Anything else, such as the page of a proxy, would be read again and again without an event. */
function requireEventStream({ status, headers, url, body }: Response): void {
  if (headers.get('content-type')?.startsWith('text/event-stream')) return;
  body?.cancel().catch(() => undefined);
  throw new ApiError(status, { detail: `${url.split('?')[0]} does not answer with a stream of events.` }, headers);
}

/** Parses a stream as browsers do, of servers that end lines with a line feed. An incomplete event at the end is dropped. */
async function* parseEvents(texts: AsyncIterable<string>): AsyncGenerator<ServerSentEvent> {
  let pending = '';
  let id = '';
  for await (const text of texts) {
    const blocks = (pending + text).split('\n\n');
    pending = blocks.pop() ?? '';
    for (const block of blocks) {
      let type = 'message';
      const data: string[] = [];
      for (const line of block.split('\n')) {
        const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
        if (field === 'id') id = value;
        else if (field === 'event') type = value;
        else if (field === 'data') data.push(value);
      }
      if (data.length > 0) yield { id, type, data: data.join('\n') };
    }
  }
}

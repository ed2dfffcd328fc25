import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Job } from './api.ts';
import { until } from './until.ts';

/** An event as it is sent in a stream, in a page or to a webhook. */
export interface PublicEvent {
  id: number;
  type: string;
  at: string;
  job: Job | null;
  data: Record<string, unknown>;
}

/** One frame of a stream, by field. */
export interface Frame {
  id?: string;
  event?: string;
  data?: string;
  retry?: string;
}

export interface EventStream {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  /** All received text. */
  text(): string;
  frames(): Frame[];
  events(): PublicEvent[];
  commentCount(): number;
  /** Waits until this many events have been received. */
  waitForEvents(count: number): Promise<PublicEvent[]>;
  /** Closes the connection at once, even inside a frame. */
  disconnect(): void;
  /** Resolves when either side has closed the connection. */
  closed: Promise<void>;
}

export interface StreamOptions {
  path?: string;
  headers?: Record<string, string>;
}

/** Opens a stream of server-sent events over a separate HTTP connection, and exposes the raw frames. */
export async function openEventStream(url: string, token: string, options: StreamOptions = {}): Promise<EventStream> {
  const { path = '/events/', headers = {} } = options;
  let text = '';
  const request = url.startsWith('https:') ? httpsRequest : httpRequest;
  const clientRequest = request(url + path, {
    agent: false,
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers },
  });
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    clientRequest.once('response', resolve).once('error', reject).end();
  });
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  response.on('error', () => undefined);
  clientRequest.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    response.once('close', resolve);
  });
  const stream: EventStream = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: () => text,
    frames: () => parseFrames(text),
    events: () => stream.frames().flatMap(({ data }) => (data === undefined ? [] : [JSON.parse(data) as PublicEvent])),
    commentCount: () => text.split('\n').filter((line) => line.startsWith(':')).length,
    waitForEvents: (count) =>
      until(`${count} events in the stream`, () => {
        const events = stream.events();
        return events.length >= count ? events : undefined;
      }),
    disconnect: () => clientRequest.destroy(),
    closed,
  };
  return stream;
}

/** Opens this many streams. Not all at once: the queue of connections to accept is limited. */
export async function openEventStreams(
  count: number,
  ...stream: Parameters<typeof openEventStream>
): Promise<EventStream[]> {
  const streams: EventStream[] = [];
  while (streams.length < count) {
    const some = Array.from({ length: Math.min(50, count - streams.length) }, () => openEventStream(...stream));
    streams.push(...(await Promise.all(some)));
  }
  return streams;
}

/** Parses the complete frames. An incomplete frame at the end is dropped. */
function parseFrames(text: string): Frame[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .map((block) => {
      const frame: Record<string, string> = {};
      for (const line of block.split('\n')) {
        const [, field = '', value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (field !== '') frame[field] = frame[field] === undefined ? value : `${frame[field]}\n${value}`;
      }
      return frame as Frame;
    })
    .filter((frame) => Object.keys(frame).length > 0);
}

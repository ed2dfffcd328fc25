import { request } from 'node:http';
import type { Job } from './api.ts';
import { until } from './until.ts';

/** An event as it is sent: in a stream, in a page, to a webhook. */
export interface PublicEvent {
  id: number;
  type: string;
  at: string;
  job: Job | null;
  data: Record<string, unknown>;
}

/** One frame of a stream, field by field. */
export interface Frame {
  id?: string;
  event?: string;
  data?: string;
  retry?: string;
}

export interface EventStream {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  /** Everything that has arrived, as it stands. */
  text(): string;
  frames(): Frame[];
  events(): PublicEvent[];
  comments(): number;
  /** Waits for so many events. */
  waitForEvents(count: number): Promise<PublicEvent[]>;
  /** Cuts the connection, wherever it stands. */
  disconnect(): void;
  /** When the connection has ended, whoever ended it. */
  closed: Promise<void>;
}

export interface StreamOptions {
  path?: string;
  headers?: Record<string, string>;
}

/** A client of server-sent events that hides nothing: real HTTP, a connection of its own, frames as they come. */
export async function openEventStream(url: string, token: string, options: StreamOptions = {}): Promise<EventStream> {
  const { path = '/events/', headers = {} } = options;
  let text = '';
  const outgoing = request(url + path, {
    agent: false,
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers },
  });
  const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve).once('error', reject).end();
  });
  response.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  response.on('error', () => undefined);
  outgoing.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => {
    response.once('close', resolve);
  });
  const stream: EventStream = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: () => text,
    frames: () => parseFrames(text),
    events: () => stream.frames().flatMap(({ data }) => (data === undefined ? [] : [JSON.parse(data) as PublicEvent])),
    comments: () => text.split('\n').filter((line) => line.startsWith(':')).length,
    waitForEvents: (count) =>
      until(`${count} events in the stream`, () => {
        const events = stream.events();
        return events.length >= count ? events : undefined;
      }),
    disconnect: () => outgoing.destroy(),
    closed: ended,
  };
  return stream;
}

/** What is whole of a stream: a frame that was cut off is none. */
export function parseFrames(text: string): Frame[] {
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

import type { Api } from './api.ts';
import { ApiError } from './errors.ts';
import type { Event, Job } from './generated/types.ts';
import type { Http } from './http.ts';
import { followEvents } from './server-sent-events.ts';

export interface EventOptions {
  /** Id of the last event that you have; 0 for all stored events. Default: only new ones. */
  since?: number | undefined;
  /** The events of this user, for administrators. Default: your own. */
  user?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Called with true when the stream is open, and with false when it is interrupted and will be opened again. */
  onConnection?: ((isConnected: boolean) => void) | undefined;
}

/** Yields events as they happen, across interruptions and restarts of the server: each once, in their order. */
export async function* events(http: Http, api: Api, options: EventOptions): AsyncGenerator<Event> {
  const { since, user, signal, onConnection } = options;
  // Found before the stream is opened: a stream of new events that is cut off before its first one would miss some.
  const position = since ?? (await latestPosition(api, user, signal));
  const path = user === undefined ? '/events/' : `/admin/events/${encodeURIComponent(user)}/`;
  for await (const { data } of followEvents(http, { path, lastEventId: String(position), signal, onConnection }))
    yield JSON.parse(data) as Event;
}

async function latestPosition(api: Api, user: string | undefined, signal: AbortSignal | undefined): Promise<number> {
  const query = { after: 'latest', limit: 1 };
  if (user === undefined) return (await api.listEvents({ query, signal })).next;
  return (await api.listEventsOfUser({ path: { user_id: user }, query, signal })).next;
}

interface Subscriber {
  jobId: string;
  /** The job at the time of the event; undefined if the caller must read it again. */
  onChange(job: Job | undefined): void;
  onError(error: unknown): void;
}

export interface JobEvents {
  /**
   * Resolves when every later change of the job will be reported: a caller who reads the job then misses none.
   * The returned function unsubscribes.
   */
  subscribe(subscriber: Subscriber): Promise<() => void>;
}

/** Reports changes of jobs to all who wait for some, from one stream. It is open while anybody waits. */
export function createJobEvents(http: Http, api: Api): JobEvents {
  const subscribers = new Set<Subscriber>();
  let current: { abort: AbortController; isReady: Promise<number> } | undefined;

  function start() {
    const abort = new AbortController();
    const isReady = latestPosition(api, undefined, abort.signal);
    current = { abort, isReady };
    isReady
      .then((position) => run(position, abort.signal))
      .catch((error) => {
        if (abort.signal.aborted) return;
        current = undefined;
        for (const subscriber of [...subscribers]) subscriber.onError(error);
      });
    return current;
  }

  async function run(since: number, signal: AbortSignal): Promise<void> {
    for (let position = since; ; ) {
      try {
        for await (const { job, data } of events(http, api, { since: position, signal })) {
          const jobId = job?.job_id ?? (data as { job_id?: string }).job_id;
          for (const subscriber of [...subscribers])
            if (subscriber.jobId === jobId) subscriber.onChange(job ?? undefined);
        }
        return;
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 'events_expired') throw error;
        // The connection was lost for so long that events are gone.
        position = await latestPosition(api, undefined, signal);
        for (const subscriber of [...subscribers]) subscriber.onChange(undefined);
      }
    }
  }

  return {
    async subscribe(subscriber) {
      subscribers.add(subscriber);
      const stream = current ?? start();
      const unsubscribe = () => {
        subscribers.delete(subscriber);
        if (subscribers.size > 0 || current !== stream) return;
        current = undefined;
        stream.abort.abort();
      };
      await stream.isReady.catch((error) => {
        unsubscribe();
        throw error;
      });
      return unsubscribe;
    },
  };
}

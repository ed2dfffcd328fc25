import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../../domain/errors.ts';
import type { LogChunk } from '../../files/workspaces/workspace-reader.ts';
import type { Metrics } from '../../metrics/registry.ts';

/** A log that may be followed. */
export interface LogSource {
  look(from: { offset: number; maxBytes: number }, signal: AbortSignal): Promise<LogChunk | undefined>;
  /** Whether nothing more will be printed. Asks the books, never the scheduler. */
  isOver(): Promise<boolean>;
  lookMs: { fast: number; slow: number };
}

const pieceBytes = 256 * 1024;
/** How much more patient each silent look makes the next. */
const patience = 1.5;

interface Feed {
  followers: number;
  /** What is known of the log. */
  size: number;
  isOver: boolean;
  failure: unknown;
  /** What the last look brought, and where it begins: whoever is up to date need not read it again. */
  news: { offset: number; bytes: Buffer };
  /** Called at every change. */
  waiting: Set<() => void>;
  stop: AbortController;
}

/**
 * Follows logs. However many follow the same one, it is looked at by one of us only: fast while something comes, more
 * and more slowly while nothing does. Who is behind reads on his own until he has caught up. When the last follower has
 * gone, nothing is left of it.
 */
export function createLogFeeds(metrics: Pick<Metrics, 'setGauge' | 'increment'>) {
  const feeds = new Map<string, Feed>();

  function measure() {
    const followers = feeds.values().reduce((sum, feed) => sum + feed.followers, 0);
    metrics.setGauge('bursar_followed_logs', {}, feeds.size);
    metrics.setGauge('bursar_log_followers', {}, followers);
  }

  function join(name: string, source: LogSource, offset: number): Feed {
    let feed = feeds.get(name);
    if (feed === undefined) {
      feed = {
        followers: 0,
        size: offset,
        isOver: false,
        failure: undefined,
        news: { offset, bytes: Buffer.alloc(0) },
        waiting: new Set(),
        stop: new AbortController(),
      };
      feeds.set(name, feed);
      void watch(feed, source, () => metrics.increment('bursar_log_looks_total'));
    }
    feed.followers += 1;
    measure();
    return feed;
  }

  function leave(name: string, feed: Feed) {
    feed.followers -= 1;
    if (feed.followers === 0) {
      feeds.delete(name);
      feed.stop.abort();
    }
    measure();
  }

  return {
    /** The bytes from an offset on, piece by piece, until the log is over or the signal is aborted. */
    async *follow(name: string, source: LogSource, from: number, signal: AbortSignal): AsyncGenerator<Buffer> {
      const feed = join(name, source, from);
      let offset = from;
      try {
        while (!signal.aborted) {
          const bytes = offset < feed.size ? await readPatiently(feed, source, offset, signal) : undefined;
          if (bytes !== undefined && bytes.length > 0) {
            offset += bytes.length;
            yield bytes;
          } else if (feed.failure !== undefined) throw feed.failure;
          else if (feed.isOver) return;
          else await change(feed, signal);
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        leave(name, feed);
      }
    },
  };
}

/** What passes by itself is waited for: a follower need not know that a connection was lost and made again. */
async function readPatiently(feed: Feed, source: LogSource, offset: number, signal: AbortSignal) {
  const { news } = feed;
  const isNew = offset >= news.offset && offset < news.offset + news.bytes.length;
  if (isNew) return news.bytes.subarray(offset - news.offset);
  for (;;) {
    try {
      return (await source.look({ offset, maxBytes: pieceBytes }, signal))?.bytes;
    } catch (error) {
      if (!isTransient(error)) throw error;
      await sleep(source.lookMs.slow, undefined, { signal });
    }
  }
}

const isTransient = (error: unknown) => error instanceof BursarError && error.transient;

/** Looks again and again, until the log is over and known to its end, or nobody follows it any more. */
async function watch(feed: Feed, source: LogSource, onLook: () => void): Promise<void> {
  const { signal } = feed.stop;
  const { fast, slow } = source.lookMs;
  let pauseMs = fast;
  while (!signal.aborted && !feed.isOver) {
    try {
      // In this order: what was printed before the end is there when the end is known.
      const isOver = await source.isOver();
      onLook();
      const look = await source.look({ offset: feed.size, maxBytes: pieceBytes }, signal);
      const hasGrown = look !== undefined && look.size > feed.size;
      if (hasGrown) {
        feed.news = { offset: feed.size, bytes: look.bytes };
        feed.size = look.size;
      }
      feed.isOver = isOver && !hasGrown;
      pauseMs = hasGrown ? fast : Math.min(slow, pauseMs * patience);
      if (hasGrown || feed.isOver) wake(feed);
      if (hasGrown && isOver) continue;
    } catch (error) {
      if (!isTransient(error)) {
        feed.failure = error;
        wake(feed);
        return;
      }
      pauseMs = slow;
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

function wake(feed: Feed): void {
  const waiting = [...feed.waiting];
  feed.waiting.clear();
  for (const resolve of waiting) resolve();
}

/** Resolves at the next change, or when the signal is aborted. */
async function change(feed: Feed, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  feed.waiting.add(resolve);
  signal.addEventListener('abort', onAbort);
  await promise;
  signal.removeEventListener('abort', onAbort);
  feed.waiting.delete(resolve);
}

import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../../domain/errors.ts';
import type { LogChunk } from '../../files/workspaces/workspace-reader.ts';
import type { Metrics } from '../../metrics/metrics.ts';

/** A log that can be followed. */
export interface LogSource {
  read(range: { offset: number; maxBytes: number }, signal: AbortSignal): Promise<LogChunk | undefined>;
  /** Whether the job has ended. Reads the database, never the scheduler. */
  isComplete(): Promise<boolean>;
  pollMs: { fast: number; slow: number };
}

const chunkBytes = 256 * 1024;
/** The poll interval grows by this factor while the log does not grow. */
const pollBackoff = 1.5;

interface Feed {
  followers: number;
  /** The size of the log at the last poll. */
  size: number;
  isComplete: boolean;
  error: unknown;
  /** The chunk of the last poll. A follower that is up to date takes it from here and reads nothing. */
  lastChunk: { offset: number; bytes: Buffer };
  /** Emits `change`. */
  events: EventEmitter;
  stop: AbortController;
}

export type LogFeeds = ReturnType<typeof createLogFeeds>;

/**
 * Follows logs. One poller per log serves all its followers: fast while the log grows, and more and more slowly while it
 * does not. A follower that is behind reads by itself until it has caught up. The poller ends with the last follower.
 */
export function createLogFeeds(metrics: Pick<Metrics, 'setGauge' | 'increment'>) {
  const feeds = new Map<string, Feed>();

  function setFollowerGauges() {
    const followers = feeds.values().reduce((sum, feed) => sum + feed.followers, 0);
    metrics.setGauge('bursar_followed_logs', {}, feeds.size);
    metrics.setGauge('bursar_log_followers', {}, followers);
  }

  function join(name: string, source: LogSource, size: number): Feed {
    let feed = feeds.get(name);
    if (feed === undefined) {
      feed = {
        followers: 0,
        size,
        isComplete: false,
        error: undefined,
        lastChunk: { offset: size, bytes: Buffer.alloc(0) },
        events: new EventEmitter().setMaxListeners(0),
        stop: new AbortController(),
      };
      feeds.set(name, feed);
      void pollLog(feed, source, () => metrics.increment('bursar_log_polls_total', {}));
    }
    feed.followers += 1;
    setFollowerGauges();
    return feed;
  }

  function leave(name: string, feed: Feed) {
    feed.followers -= 1;
    if (feed.followers === 0) {
      feeds.delete(name);
      feed.stop.abort();
    }
    setFollowerGauges();
  }

  return {
    /**
     * Yields the bytes from an offset on, in chunks, until the log is complete or the signal is aborted. The poller starts
     * at `size`, the current size of the log: an offset is chosen by one follower, and may be far beyond the end.
     */
    async *follow(
      name: string,
      source: LogSource,
      { from, size }: { from: number; size: number },
      signal: AbortSignal,
    ): AsyncGenerator<Buffer> {
      const feed = join(name, source, size);
      let offset = from;
      try {
        while (!signal.aborted) {
          const bytes = offset < feed.size ? await readWithRetry(feed, source, offset, signal) : undefined;
          if (bytes !== undefined && bytes.length > 0) {
            offset += bytes.length;
            yield bytes;
          } else if (feed.error !== undefined) throw feed.error;
          else if (feed.isComplete) return;
          else await once(feed.events, 'change', { signal });
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        leave(name, feed);
      }
    },
  };
}

/** Retries transient errors, so that a follower does not notice a lost connection. */
async function readWithRetry(feed: Feed, source: LogSource, offset: number, signal: AbortSignal) {
  const { lastChunk } = feed;
  const isInLastChunk = offset >= lastChunk.offset && offset < lastChunk.offset + lastChunk.bytes.length;
  if (isInLastChunk) return lastChunk.bytes.subarray(offset - lastChunk.offset);
  for (;;) {
    try {
      return (await source.read({ offset, maxBytes: chunkBytes }, signal))?.bytes;
    } catch (error) {
      if (!isTransient(error)) throw error;
      await sleep(source.pollMs.slow, undefined, { signal });
    }
  }
}

const isTransient = (error: unknown) => error instanceof BursarError && error.transient;

/** Polls until the job has ended and the log was read to its end, or the last follower has left. */
async function pollLog(feed: Feed, source: LogSource, onPoll: () => void): Promise<void> {
  const { signal } = feed.stop;
  const { fast, slow } = source.pollMs;
  let pauseMs = fast;
  while (!signal.aborted && !feed.isComplete) {
    try {
      // In this order: once the job is known to have ended, the next read sees all its output.
      const hasEnded = await source.isComplete();
      onPoll();
      const chunk = await source.read({ offset: feed.size, maxBytes: chunkBytes }, signal);
      const hasGrown = chunk !== undefined && chunk.size > feed.size;
      if (hasGrown) {
        feed.lastChunk = { offset: feed.size, bytes: chunk.bytes };
        feed.size = chunk.size;
      }
      feed.isComplete = hasEnded && !hasGrown;
      pauseMs = hasGrown ? fast : Math.min(slow, pauseMs * pollBackoff);
      if (hasGrown || feed.isComplete) feed.events.emit('change');
      if (hasGrown && hasEnded) continue;
    } catch (error) {
      if (!isTransient(error)) {
        feed.error = error;
        feed.events.emit('change');
        return;
      }
      pauseMs = slow;
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

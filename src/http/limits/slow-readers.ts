import type { FastifyBaseLogger } from 'fastify';
import { extendDeadline } from '../../domain/reading-deadline.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Connection } from './concurrency.ts';

export interface SlowReaderLimits {
  /** A client must take at least `minBytes` of a waiting response within this time, on average. */
  windowMs: number;
  minBytes: number;
  /** The size of all waiting responses together. Beyond it, clients that take nothing are disconnected sooner. */
  maxWaitingBytes: number;
}

const checksPerWindow = 10;

/** A check without progress alone says little: the operating system takes the bytes for a steady client in bursts. */
const stalledChecks = 4;

/** The send buffer of Linux has up to 4 MB, so a client that reads 10 KB/s takes bytes every two minutes only. */
const maxPauseWindows = 10;

/** The progress of a connection. */
interface Progress {
  /** Bytes that the client had taken at the last check. */
  taken: number;
  /** The number of checks since the client took any. */
  checksWithoutProgress: number;
  /** When the client must have taken more. */
  deadline: number;
}

/**
 * Finds clients that do not read their responses: each of them holds memory, a file or a slot of its user. Checking all
 * connections from time to time costs a request nothing. A timeout of Node would end at every byte that a client takes.
 */
export function createSlowReaderCheck({ windowMs, minBytes, maxWaitingBytes }: SlowReaderLimits) {
  const progressOf = new WeakMap<Connection, Progress>();
  const bytesPerSecond = (minBytes / windowMs) * 1000;
  const maxPauseMs = maxPauseWindows * windowMs;

  /** Returns the bytes that wait for the client, and whether it has stalled or was too slow. */
  function measure(connection: Connection, now: number) {
    const { socket, stream = socket } = connection;
    const waiting = stream.writableLength;
    if (waiting === 0) {
      progressOf.delete(connection);
      return { connection, waiting, isStalled: false, isTooSlow: false };
    }
    const progress = advance(progressOf.get(connection), stream.bytesWritten - waiting, waiting, now);
    progressOf.set(connection, progress);
    const isTooSlow = now >= progress.deadline;
    return { connection, waiting, isStalled: !isTooSlow && progress.checksWithoutProgress >= stalledChecks, isTooSlow };
  }

  function advance(before: Progress | undefined, taken: number, waiting: number, now: number): Progress {
    if (taken === before?.taken) return { ...before, checksWithoutProgress: before.checksWithoutProgress + 1 };
    // Node counts the bytes of a write only when the client has taken all of them.
    const timeMs = Math.max(windowMs, (waiting / bytesPerSecond) * 1000);
    const deadline = before
      ? extendDeadline({ deadline: before.deadline, now, bytes: taken - before.taken, bytesPerSecond, maxPauseMs })
      : now + Math.min(timeMs, maxPauseMs);
    return { taken, checksWithoutProgress: 0, deadline };
  }

  /** Returns the connections to close. */
  return (connections: Iterable<Connection>, now: number): Connection[] => {
    const measured = [...connections].map((connection) => measure(connection, now));
    const tooSlow = measured.filter(({ isTooSlow }) => isTooSlow);
    let waitingBytes = measured.reduce((sum, { waiting, isTooSlow }) => sum + (isTooSlow ? 0 : waiting), 0);
    const stalled = measured.filter(({ isStalled }) => isStalled);
    for (const each of stalled.sort((a, b) => b.waiting - a.waiting)) {
      if (waitingBytes <= maxWaitingBytes) break;
      waitingBytes -= each.waiting;
      tooSlow.push(each);
    }
    return tooSlow.map(({ connection }) => connection);
  };
}

/** Disconnects clients that read too slowly. Returns a function that stops the checks. */
export function disconnectSlowReaders(
  openConnections: () => Iterable<Connection>,
  limits: SlowReaderLimits,
  metrics: Pick<Metrics, 'increment'>,
  log: Pick<FastifyBaseLogger, 'info'>,
): () => void {
  const findSlowReaders = createSlowReaderCheck(limits);
  const checkMs = limits.windowMs / checksPerWindow;
  /** How long the server was able to send. While its event loop is blocked, no client can take anything. */
  let sendingMs = 0;
  let checkedAt = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    sendingMs += Math.min(now - checkedAt, 2 * checkMs);
    checkedAt = now;
    for (const { socket } of findSlowReaders(openConnections(), sendingMs)) {
      metrics.increment('bursar_connections_cut_total', { reason: 'slow_reader' });
      log.info({ address: socket.remoteAddress }, 'client disconnected: it reads its response too slowly');
      socket.destroy();
    }
  }, checkMs);
  timer.unref();
  return () => clearInterval(timer);
}

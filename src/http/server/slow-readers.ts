import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { extendDeadline } from '../../domain/reading-deadline.ts';

export interface SlowReaderLimits {
  /** A client must take at least `minBytes` of a waiting response within this time, on average. */
  windowMs: number;
  minBytes: number;
  /** The size of all waiting responses together. Beyond it, clients that take nothing are disconnected sooner. */
  maxWaitingBytes: number;
}

/**
 * A check without progress alone says little: the operating system takes the bytes for a steady client in bursts. There are
 * ten checks in a window, so this is what the description of `limits.unreadResponsesMb` calls two fifths.
 */
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
 * connections from time to time costs a request nothing.
 */
export function createSlowReaderCheck(
  { windowMs, minBytes, maxWaitingBytes }: SlowReaderLimits,
  /** The decrypted stream of a socket with TLS. */
  streamOf: (socket: Socket) => TLSSocket | undefined = () => undefined,
) {
  const progressBySocket = new WeakMap<Socket, Progress>();
  const bytesPerSecond = (minBytes / windowMs) * 1000;
  const maxPauseMs = maxPauseWindows * windowMs;

  /** Returns the bytes that wait for the client, and whether it has stalled or was too slow. */
  function measure(socket: Socket, now: number): { waiting: number; isStalled: boolean; isTooSlow: boolean } {
    const { taken, waiting } = readSocket(socket, streamOf(socket));
    if (waiting === 0) {
      progressBySocket.delete(socket);
      return { waiting, isStalled: false, isTooSlow: false };
    }
    const before = progressBySocket.get(socket);
    const progress = before ? advance(before, taken, now) : startProgress(taken, now);
    progressBySocket.set(socket, progress);
    const isStalled = progress.checksWithoutProgress >= stalledChecks;
    return { waiting, isStalled, isTooSlow: now >= progress.deadline };
  }

  const startProgress = (taken: number, now: number) => ({
    taken,
    checksWithoutProgress: 0,
    deadline: now + windowMs,
  });

  function advance(before: Progress, taken: number, now: number): Progress {
    if (taken === before.taken) return { ...before, checksWithoutProgress: before.checksWithoutProgress + 1 };
    const bytes = taken - before.taken;
    const deadline = extendDeadline({ deadline: before.deadline, now, bytes, bytesPerSecond, maxPauseMs });
    return { taken, checksWithoutProgress: 0, deadline };
  }

  /** Returns the connections to close. */
  return (sockets: Iterable<Socket>, now: number): Socket[] => {
    const measured = [...sockets].map((socket) => ({ socket, ...measure(socket, now) }));
    const tooSlow = measured.filter(({ isTooSlow }) => isTooSlow);
    let waitingBytes = measured.reduce((sum, { waiting, isTooSlow }) => sum + (isTooSlow ? 0 : waiting), 0);
    const stalled = measured.filter(({ isStalled, isTooSlow }) => isStalled && !isTooSlow);
    for (const each of stalled.sort((a, b) => b.waiting - a.waiting)) {
      if (waitingBytes <= maxWaitingBytes) break;
      waitingBytes -= each.waiting;
      tooSlow.push(each);
    }
    return tooSlow.map(({ socket }) => socket);
  };
}

/** Node's own write timeout reads the same field of the handle: no public one shows the progress within one write. */
interface WriteHandle {
  /** Bytes that were given to the operating system or wait for it. */
  bytesWritten: number;
  /** Those that wait for it. */
  writeQueueSize: number;
}

/** With TLS, the socket has the encrypted bytes, and the stream those that wait to be encrypted. */
function readSocket(socket: Socket, stream: TLSSocket | undefined): { taken: number; waiting: number } {
  const { _handle: handle } = socket as Socket & { _handle?: Partial<WriteHandle> | null };
  if (!handle) return { taken: 0, waiting: 0 };
  const { bytesWritten, writeQueueSize } = handle;
  // A version of Node may come without these fields. The public ones move only when a whole write is done.
  if (typeof bytesWritten !== 'number' || typeof writeQueueSize !== 'number') {
    const { bytesWritten: written, writableLength: waiting } = stream ?? socket;
    return { taken: written - waiting, waiting };
  }
  const taken = bytesWritten - writeQueueSize;
  // `socket.bytesWritten` includes what was written to the stream and not yet passed on.
  const waiting = socket.bytesWritten - taken;
  return { taken, waiting: waiting + (stream === undefined ? 0 : unencryptedBytes(stream)) };
}

function unencryptedBytes(stream: TLSSocket): number {
  const { _handle: handle } = stream as TLSSocket & { _handle?: Partial<WriteHandle> | null };
  return typeof handle?.bytesWritten === 'number' ? stream.bytesWritten - handle.bytesWritten : 0;
}

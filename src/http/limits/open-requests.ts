import type { FastifyReply } from 'fastify';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { createSlots } from '../../domain/slots.ts';

/** Requests that last, and hold memory, a file or a command meanwhile. */
export type OpenRequestKind = 'upload' | 'download' | 'log_follower' | 'event_listener';

export type OpenRequestLimits = Record<OpenRequestKind, { perUser: number; total: number }>;

/** Bounds the requests that are open at the same time, by user and in all. Each instance counts for itself. */
export interface OpenRequests {
  /**
   * Counts a request of a user until the result is called. Throws 429 if the user has reached the limit, and
   * `server_busy` if all users together have.
   */
  open(kind: OpenRequestKind, userId: string): () => void;
  /** Like `open`, until the response has been sent or its client has disconnected. */
  openUntilClosed(kind: OpenRequestKind, userId: string, reply: FastifyReply): void;
}

export interface OpenRequestDeps {
  limits: OpenRequestLimits;
  /** The gauge of the open requests of a kind. */
  gauge(kind: OpenRequestKind): { set(count: number): void };
  onRefusal(kind: OpenRequestKind): void;
  /** Called at the end of a download, with the bytes that were sent. */
  onDownload(bytes: number): void;
}

interface Wording {
  code: ErrorCode;
  /** After "You have 5 open" or "The server has 5 open". */
  noun: string;
  advice: string;
  retryAfterSeconds: number;
}

const wordings: Record<OpenRequestKind, Wording> = {
  upload: {
    code: 'too_many_requests',
    noun: 'submissions that are still arriving',
    advice: 'Wait until one has arrived.',
    retryAfterSeconds: 1,
  },
  download: {
    code: 'too_many_requests',
    noun: 'downloads',
    advice: 'Wait until one has finished.',
    retryAfterSeconds: 5,
  },
  log_follower: {
    code: 'too_many_listeners',
    noun: 'requests that follow a log',
    advice: 'Close some of them.',
    retryAfterSeconds: 60,
  },
  event_listener: {
    code: 'too_many_listeners',
    noun: 'event streams and long polls',
    advice: 'Close some of them.',
    // A long poll, the shortest of them, ends after a minute at the latest.
    retryAfterSeconds: 60,
  },
};

export function createOpenRequests({ limits, gauge, onRefusal, onDownload }: OpenRequestDeps): OpenRequests {
  const createKind = (kind: OpenRequestKind) => {
    const { perUser, total } = limits[kind];
    return { slots: createSlots({ perKey: perUser, total }), gauge: gauge(kind) };
  };
  const kinds = {
    upload: createKind('upload'),
    download: createKind('download'),
    log_follower: createKind('log_follower'),
    event_listener: createKind('event_listener'),
  };

  function open(kind: OpenRequestKind, userId: string): () => void {
    const { slots, gauge: count } = kinds[kind];
    const free = slots.tryTake(userId);
    if (free === undefined) {
      onRefusal(kind);
      throw refusal(kind, limits[kind], slots.countTaken(userId));
    }
    count.set(slots.countTaken());
    return () => {
      free();
      count.set(slots.countTaken());
    };
  }

  return {
    open,
    openUntilClosed(kind, userId, reply) {
      // The client may have disconnected while the token was checked: then there is no `close` to come.
      const { socket } = reply.raw;
      if (reply.raw.destroyed || socket === null) return;
      const close = open(kind, userId);
      const sentBefore = socket.bytesWritten;
      reply.raw.once('close', () => {
        close();
        if (kind === 'download') onDownload(socket.bytesWritten - sentBefore);
      });
    },
  };
}

function refusal(kind: OpenRequestKind, { perUser, total }: { perUser: number; total: number }, ofUser: number) {
  const { code, noun, advice, retryAfterSeconds } = wordings[kind];
  const options = { transient: true, retryAfterSeconds };
  if (ofUser >= perUser)
    return new BursarError(code, `You have ${perUser} open ${noun}, which is the limit. ${advice}`, options);
  const message = `The server has ${total} open ${noun} of all users, which is the limit. Try again later.`;
  return new BursarError('server_busy', message, options);
}

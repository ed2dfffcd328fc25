import type { FastifyBaseLogger } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../services/identity/actor.ts';

export interface AccessLogEntry {
  requestId: string;
  method: string;
  url: string;
  /** The template of the path, such as `/jobs/:hpc/`. */
  route: string;
  status: number;
  /** Whether the client disconnected before the end of the response. Event streams usually end so: false for them. */
  isAborted: boolean;
  ms: number;
  /** Like `ms`, but for an event stream the time to its first byte. */
  latencyMs: number;
  /** The IP address of the client. */
  address: string;
  /** Null for a request without valid credentials. */
  caller: Pick<Caller, 'userId' | 'tokenId' | 'sessionId'> | null;
}

/** Beyond this many callers at a time, the least recent one gets a new logger. */
const maxCallers = 1000;

/** Logs one line for every response. */
export function createAccessLog(log: FastifyBaseLogger): (entry: AccessLogEntry) => void {
  // The fields of a caller are serialized once: doing so for every response costs a tenth of the fastest ones.
  const loggers = new LRUCache<string, FastifyBaseLogger>({ max: maxCallers });

  function loggerOf(address: string, caller: AccessLogEntry['caller']): FastifyBaseLogger {
    const key = caller === null ? address : `${address} ${caller.userId} ${caller.tokenId} ${caller.sessionId}`;
    let logger = loggers.get(key);
    if (logger === undefined) {
      const { userId: user, tokenId, sessionId } = caller ?? {};
      // Undefined fields are left out.
      logger = log.child({ address, user, token: tokenId ?? undefined, session: sessionId ?? undefined });
      loggers.set(key, logger);
    }
    return logger;
  }

  return ({ requestId, method, url, status, ms, address, caller }) => {
    const fields = { reqId: requestId, method, path: loggablePath(url), status, ms: Math.round(ms * 10) / 10 };
    loggerOf(address, caller).info(fields, 'request served');
  };
}

/** Drops the query and masks everything that looks like a token. */
export function loggablePath(url: string): string {
  const query = url.indexOf('?');
  const path = url.slice(0, Math.min(query < 0 ? url.length : query, 500));
  return path.includes('bursar_') || path.includes('eyJ') ? path.replace(/bursar_[\w-]+|eyJ[\w.-]+/g, '***') : path;
}

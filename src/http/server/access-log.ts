import type { FastifyBaseLogger } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { ServedRequest } from './served-request.ts';

export interface AccessLogSettings {
  /** The part of the requests that are logged, from 0 to 1. Errors and slow requests are logged anyway. */
  sampleRatio: number;
  slowRequestMs: number;
}

/** Beyond this many callers at a time, the least recent one gets a new logger. */
const maxCallers = 1000;

const firstErrorStatus = 400;

/** Programs read them every few seconds, and nobody looks for them. */
const probeRoutes = new Set(['/livez', '/readyz', '/metrics']);

/** Logs one line for every request that has ended, or for a sample of them. */
export function createAccessLog(
  log: FastifyBaseLogger,
  { sampleRatio, slowRequestMs }: AccessLogSettings,
): (served: ServedRequest) => void {
  // The fields of a caller are serialized once: doing so for every response costs a tenth of the fastest ones.
  const loggers = new LRUCache<string, FastifyBaseLogger>({ max: maxCallers });

  function loggerOf(address: string, caller: ServedRequest['caller']): FastifyBaseLogger {
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

  return (served) => {
    const { requestId, method, route, url, status, ms, bytes, isAborted, traceId, address, caller } = served;
    const isSampled = sampleRatio < 1 && status < firstErrorStatus && ms < slowRequestMs;
    if (isSampled && Math.random() >= sampleRatio) return;
    const fields: Record<string, unknown> = {
      reqId: requestId,
      method,
      route,
      path: loggablePath(url),
      status,
      ms: Math.round(ms * 10) / 10,
      bytes,
    };
    if (isAborted) fields.aborted = true;
    if (traceId !== undefined) fields.trace_id = traceId;
    // So that counts can be scaled: the line stands for 1 / sampleRatio requests.
    if (isSampled) fields.sampleRatio = sampleRatio;
    const isProbe = route !== undefined && probeRoutes.has(route) && status < firstErrorStatus;
    loggerOf(address, caller)[isProbe ? 'debug' : 'info'](fields, 'request served');
  };
}

const maxPathLength = 500;
const secretInPath = /bursar_[\w-]+|eyJ[\w.-]+|whsec_[\w+/=-]+/g;

/** Drops the query and masks everything that looks like a secret, also if some of its characters are percent-encoded. */
export function loggablePath(url: string): string {
  const query = url.indexOf('?');
  const path = url.slice(0, Math.min(query < 0 ? url.length : query, maxPathLength));
  if (!path.includes('%')) return maskSecrets(path);
  const decoded = path.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const masked = maskSecrets(decoded);
  return masked === decoded ? path : masked;
}

function maskSecrets(path: string): string {
  const mayHaveSecret = path.includes('bursar_') || path.includes('eyJ') || path.includes('whsec_');
  return mayHaveSecret ? path.replace(secretInPath, '***') : path;
}

import type { FastifyBaseLogger } from 'fastify';

export interface AccessLogEntry {
  requestId: string;
  method: string;
  url: string;
  status: number;
  ms: number;
}

/** Logs one line for every response. */
export function createAccessLog(log: FastifyBaseLogger): (entry: AccessLogEntry) => void {
  return ({ requestId, method, url, status, ms }) => {
    log.info(
      { reqId: requestId, method, path: loggablePath(url), status, ms: Math.round(ms * 10) / 10 },
      'request served',
    );
  };
}

/** Drops the query and masks everything that looks like a token. */
function loggablePath(url: string): string {
  const query = url.indexOf('?');
  const path = url.slice(0, Math.min(query < 0 ? url.length : query, 500));
  return path.includes('bursar_') || path.includes('eyJ') ? path.replace(/bursar_[\w-]+|eyJ[\w.-]+/g, '***') : path;
}

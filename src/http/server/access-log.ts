import type { FastifyBaseLogger } from 'fastify';
import { type Logger, symbols } from 'pino';

/** An answer that was given. */
export interface AccessLogEntry {
  requestId: string;
  method: string;
  url: string;
  status: number;
  ms: number;
}

const mostPaths = 1000;

/**
 * Writes a line of the log for every answer. It is put together here, in the form of all others: there is one for every
 * request, and it takes the logger as long as many an answer takes.
 */
export function accessLog(log: FastifyBaseLogger): (answered: AccessLogEntry) => void {
  const { [symbols.streamSym]: stream } = log as Logger & { [symbols.streamSym]?: { write(line: string): void } };
  const isWanted = (log as Logger).isLevelEnabled('info');
  /** Most of what is asked for has been asked for before. */
  const paths = new Map<string, string>();
  const pathOf = (url: string) => {
    const known = paths.get(url);
    if (known !== undefined) return known;
    const path = JSON.stringify(loggablePath(url));
    if (paths.size >= mostPaths) paths.clear();
    paths.set(url, path);
    return path;
  };
  return ({ requestId, method, url, status, ms }) => {
    if (stream === undefined || !isWanted) return;
    const path = pathOf(url);
    stream.write(
      `{"level":30,"time":${Date.now()},"reqId":"${requestId}","method":"${method}","path":${path},"status":${status},` +
        `"ms":${Math.round(ms * 10) / 10},"msg":"request served"}\n`,
    );
  };
}

/** No query, and nothing that looks like a token that somebody put into a path. */
function loggablePath(url: string): string {
  const query = url.indexOf('?');
  const path = url.slice(0, Math.min(query < 0 ? url.length : query, 500));
  return path.includes('bursar_') || path.includes('eyJ') ? path.replace(/bursar_[\w-]+|eyJ[\w.-]+/g, '***') : path;
}

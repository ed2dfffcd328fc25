import { randomUUID } from 'node:crypto';

/** A random prefix for this process and a counter: unique among all instances. */
const requestIdPrefix = `${randomUUID().slice(0, 13)}-`;
let requestCount = 0;

/** Takes the caller's X-Request-Id if it is harmless in a log, and no token. */
export function toRequestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^(?!.*bursar_)[\w.-]{1,64}$/.test(header)
    ? header
    : requestIdPrefix + ++requestCount;
}

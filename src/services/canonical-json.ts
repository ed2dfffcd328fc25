import { BursarError } from '../domain/errors.ts';

/** No request needs more. `JSON.stringify` overflows the stack beyond some thousand. */
const maxDepth = 100;

/** JSON with sorted keys and no spaces, so that equal values give equal texts. */
export function canonicalJson(value: unknown): string {
  if (isDeeperThan(value, maxDepth)) {
    const message = `The JSON of the request is nested more than ${maxDepth} levels deep. Send it with fewer levels.`;
    throw new BursarError('bad_request', message);
  }
  return JSON.stringify(value, (_key, inner: unknown) => (isPlainObject(inner) ? sortKeys(inner) : inner)) ?? 'null';
}

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sortKeys(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

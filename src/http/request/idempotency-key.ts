import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import { callerOf } from './authentication.ts';

/** For the OpenAPI document. */
export const keySchema = Type.String({
  description:
    'A text of your choice (1 to 200 visible ASCII characters), new for each request. Repeating a request with its key ' +
    'returns the first response.',
});

/** For actions that must not be repeated by mistake. */
export function requireKey(request: FastifyRequest): string {
  const key = idempotencyKey(request);
  if (key !== undefined) return key;
  const message = 'Send the header Idempotency-Key: 1 to 200 visible characters of your choice, new for each request.';
  throw new BursarError('idempotency_key_missing', message);
}

/** The key with the content of the request, for a service that runs it once. Null without a key. */
export function idempotentRequest(request: FastifyRequest): IdempotentRequest | null {
  const keyed = keyAndTarget(request);
  if (keyed === null) return null;
  return { userId: callerOf(request).userId, key: keyed.key, content: [keyed.target, request.body ?? null] };
}

/** The Idempotency-Key with the method and path that it was sent to. Null without a key. */
export function keyAndTarget(request: FastifyRequest): { key: string; target: string } | null {
  const key = idempotencyKey(request);
  return key === undefined ? null : { key, target: requestTarget(request) };
}

function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new BursarError(
    'idempotency_key_invalid',
    'The header Idempotency-Key must be sent once and have 1 to 200 visible ASCII characters.',
  );
}

/** Method and normalized path: without the query, the trailing slash and the percent-encoding. */
export function requestTarget(request: FastifyRequest): string {
  const [path = ''] = request.url.split('?', 1);
  const segments = path.split('/').filter((segment) => segment !== '');
  return [request.method, ...segments.map(decodeURIComponent)].join('/');
}

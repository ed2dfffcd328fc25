import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import { actorOf } from './authentication.ts';

const description = 'Chosen by you, a new one for each request. A repetition with the same key gets the first answer.';

/** For the description of the interface: a header that every POST takes. */
export const keyHeader = { 'idempotency-key': Type.Optional(Type.String({ description })) };
/** The same, for the acts that nobody may repeat by mistake. */
export const requiredKeyHeader = {
  'idempotency-key': Type.Optional(Type.String({ description: `Required. ${description}` })),
};

/** For the service: the key, the target and the body of a request that must run once; null without a key. */
export function idempotentRequest(request: FastifyRequest): IdempotentRequest | null {
  const { key, target } = keyAndTarget(request) ?? {};
  if (key === undefined) return null;
  return { userId: actorOf(request).userId, key, content: [target, request.body ?? null] };
}

/** The Idempotency-Key with the method and path that it was sent to; null without a key. */
export function keyAndTarget(request: FastifyRequest): { key: string; target: string } | null {
  const key = idempotencyKey(request);
  return key === undefined ? null : { key, target: requestTarget(request) };
}

export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new BursarError(
    'idempotency_key_invalid',
    'The header Idempotency-Key must be a text of your choice: 1 to 200 visible ASCII characters, sent once.',
  );
}

/** Method and path in one spelling: without the query, the last slash and the percent-encoding. */
export function requestTarget(request: FastifyRequest): string {
  const [path = ''] = request.url.split('?', 1);
  const segments = path.split('/').filter((segment) => segment !== '');
  return [request.method, ...segments.map(decodeURIComponent)].join('/');
}

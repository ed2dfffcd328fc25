import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import { describe } from '../server/openapi.ts';
import type { RateLimits } from '../server/rate-limits.ts';
import { resource } from './resource.ts';

const Alive = Type.Object({ status: Type.Literal('ok') });

/** For whoever keeps the service running. They need no token, and tell nothing about anybody. */
export function probeRoutes(
  app: FastifyInstance,
  findProblems: () => Promise<string[]>,
  metrics: () => Promise<string>,
  limits: Pick<RateLimits, 'anonymous'>,
): void {
  app.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply, 'probe'));
  resource(app, '/metrics', {
    GET: {
      schema: { hide: true },
      handler: async (_request, reply) =>
        reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
    },
  });
  resource(app, '/livez', {
    GET: {
      schema: { ...describe('operation', 'Whether the process is alive', { 200: Alive }), security: [] },
      handler: async () => ({ status: 'ok' }),
    },
  });
  resource(app, '/readyz', {
    GET: {
      schema: { ...describe('operation', 'Whether requests can be served', { 200: Alive }), security: [] },
      handler: async () => {
        const problems = await findProblems();
        if (problems.length > 0) throw new BursarError('unavailable', `Not ready: ${problems.join('; ')}.`);
        return { status: 'ok' };
      },
    },
  });
}

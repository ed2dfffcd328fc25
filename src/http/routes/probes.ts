import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import type { RateLimits } from '../server/rate-limits.ts';
import { addResource } from './resource.ts';

const Ok = Type.Object({ status: Type.Literal('ok') }, { examples: [{ status: 'ok' }] });
const Ready = Type.Object(
  {
    status: Type.Literal('ok'),
    warnings: Type.Optional(
      Type.Array(Type.String(), { description: 'Problems that need an operator, although requests can be served.' }),
    ),
  },
  { examples: [{ status: 'ok' }] },
);

/** Probes and metrics for operators. They need no token and reveal nothing about users. */
export function probeRoutes(
  app: FastifyInstance,
  findProblems: () => Promise<string[]>,
  findWarnings: () => Promise<string[]>,
  metrics: () => Promise<string>,
  limits: Pick<RateLimits, 'anonymous'>,
): void {
  app.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply, 'probe'));
  addResource(app, '/metrics', {
    GET: {
      schema: {
        ...describeRoute('operation', 'getMetrics', 'Read the metrics, in the text format of Prometheus', {
          200: { description: 'The metrics.', content: { 'text/plain': { schema: Type.String() } } },
        }),
        description: 'Counters and gauges of this server. They reveal nothing about users.',
        security: [],
      },
      handler: async (_request, reply) =>
        reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8').send(await metrics()),
    },
  });
  addResource(app, '/livez', {
    GET: {
      schema: {
        ...describeRoute('operation', 'getLiveness', 'Check that the process is alive', { 200: Ok }),
        description: 'Restart the server if this fails. It does not check the database.',
        security: [],
      },
      handler: async () => ({ status: 'ok' }),
    },
  });
  addResource(app, '/readyz', {
    GET: {
      schema: {
        ...describeRoute('operation', 'getReadiness', 'Check that requests can be served', { 200: Ready }),
        description: 'Fails with 503 while the database does not respond or data cannot be stored.',
        security: [],
      },
      handler: async () => {
        const problems = await findProblems();
        if (problems.length > 0) throw new BursarError('unavailable', `Not ready. ${problems.join(' ')}`);
        const warnings = await findWarnings();
        return warnings.length === 0 ? { status: 'ok' } : { status: 'ok', warnings };
      },
    },
  });
}

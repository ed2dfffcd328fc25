import { hash, timingSafeEqual } from 'node:crypto';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { operation, operations } from '../operation.ts';

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

export interface ProbeDeps {
  /** Reasons why requests cannot be served. */
  findProblems(): Promise<string[]>;
  /** Problems that need an operator, although requests can be served. */
  findWarnings(): Promise<string[]>;
  /** Null on a server that does not serve the metrics. */
  metrics: MetricsOptions | null;
  rates: RateLimits;
}

interface MetricsOptions {
  /** The metrics in the text format of Prometheus. */
  read(): Promise<string>;
  /** Undefined if no token is required. */
  token: string | undefined;
}

/** Probes and metrics for operators. They reveal nothing about users, and need no token unless the metrics have one. */
export const probeOperations = ({ findProblems, findWarnings, metrics, rates }: ProbeDeps) =>
  operations('operation', {
    ...(metrics !== null && { getMetrics: metricsOperation(metrics, rates) }),
    getLiveness: operation({
      route: 'GET /livez',
      access: 'probe',
      summary: 'Check that the process is alive',
      description: 'Restart the server if this fails. It does not check the database.',
      responses: { 200: Ok },
      handler: () => ({ status: 'ok' }),
    }),
    getReadiness: operation({
      route: 'GET /readyz',
      access: 'probe',
      summary: 'Check that requests can be served',
      description: 'Fails with 503 while the database does not respond or data cannot be stored.',
      responses: { 200: Ready },
      handler: async () => {
        const problems = await findProblems();
        if (problems.length > 0) throw new BursarError('unavailable', `Not ready. ${problems.join(' ')}`);
        const warnings = await findWarnings();
        return warnings.length === 0 ? { status: 'ok' } : { status: 'ok', warnings };
      },
    }),
  });

const metricsOperation = ({ read, token }: MetricsOptions, rates: RateLimits) =>
  operation({
    route: 'GET /metrics',
    access: 'probe',
    ...(token !== undefined && { checks: 'bearer' }),
    summary: 'Read the metrics, in the text format of Prometheus',
    description: 'Counters and gauges of this server. They reveal nothing about users.',
    responses: { 200: { description: 'The metrics.', content: { 'text/plain': { schema: Type.String() } } } },
    onRequest: (request, reply) => {
      const { authorization } = request.headers;
      if (token === undefined) return;
      if (authorization === undefined)
        throw new BursarError('token_missing', 'Send the header "Authorization: Bearer <token of the metrics>".');
      // Digests have the same length, so that the comparison takes the same time for every token.
      if (timingSafeEqual(digest(authorization), digest(`Bearer ${token}`))) return;
      rates.invalidToken(request, reply);
      const message = 'This is not the token of the metrics. Ask the operators of this server.';
      throw new BursarError('token_invalid', message);
    },
    handler: async (_request, reply) =>
      reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8').send(await read()),
  });

const digest = (text: string) => hash('sha256', text, 'buffer');

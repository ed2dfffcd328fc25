import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifySchema } from 'fastify';
import type { TObject, TSchema } from 'typebox';
import Type from 'typebox';
import { AuditSchema, MemberSchema, PeriodSchema, ProjectSchema, UserSchema } from '../../contract/administration.ts';
import { EventPageSchema, EventSchema } from '../../contract/event.ts';
import { FileSchema } from '../../contract/file.ts';
import { JobSchema } from '../../contract/job.ts';
import {
  AccountSchema,
  LedgerVerificationSchema,
  QuoteSchema,
  StatementSchema,
  UsageSchema,
} from '../../contract/ledger.ts';
import { QuotaSchema } from '../../contract/quota.ts';
import { SystemSchema } from '../../contract/system.ts';
import { TimelineSchema } from '../../contract/timeline.ts';
import { DeliverySchema, WebhookSchema, WebhookWithSecretSchema } from '../../contract/webhook.ts';
import { ProblemSchema } from '../response/problem.ts';
import { errorReference } from './error-reference.ts';
import type { RateLimits } from './rate-limits.ts';

const schemas = [
  JobSchema,
  QuotaSchema,
  ProblemSchema,
  QuoteSchema,
  StatementSchema,
  UsageSchema,
  AccountSchema,
  LedgerVerificationSchema,
  ProjectSchema,
  MemberSchema,
  UserSchema,
  AuditSchema,
  PeriodSchema,
  SystemSchema,
  FileSchema,
  EventSchema,
  EventPageSchema,
  TimelineSchema,
  WebhookSchema,
  WebhookWithSecretSchema,
  DeliverySchema,
];

const problem = {
  description: 'A problem document (RFC 9457).',
  content: { 'application/problem+json': { schema: Type.Ref('Problem') } },
};

/** The schema of a route. All errors are problem documents. */
export function describeRoute(tag: string, summary: string, response: Record<number, TSchema>) {
  return { tags: [tag], summary, response: { ...response, '4xx': problem, '5xx': problem } };
}

/** Serves the OpenAPI document, which is generated from the schemas of the routes, and a page to browse it. */
export async function registerOpenApi(
  app: FastifyInstance,
  version: string,
  limits: Pick<RateLimits, 'anonymous'>,
): Promise<void> {
  for (const schema of schemas) app.addSchema(schema);
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Bursar',
        version,
        description: 'Submits jobs to HPC systems, reports their progress, and accounts for time and space.',
      },
      tags: [
        { name: 'jobs', description: 'Submit, read, cancel and delete jobs' },
        { name: 'files', description: 'Files that jobs produce' },
        { name: 'events', description: 'Changes to jobs and quotas as they happen' },
        { name: 'webhooks', description: 'Events sent to a URL of yours' },
        { name: 'quotas', description: 'Remaining time and space, quotes, statements and usage' },
        { name: 'systems', description: 'Limits, tools and health of the HPC systems' },
        { name: 'administration', description: 'Requests for administrators' },
        { name: 'operation', description: 'Probes for the operators of the service' },
      ],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
      security: [{ bearer: [] }],
    },
    transform: ({ schema, url }) => ({ schema: withNamedPath(schema), url: url.replace(/\*$/, ':path') }),
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => String(json.$id ?? `schema-${i}`) },
  });
  await app.register(async (instance) => {
    instance.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply));
    await instance.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: true,
      transformStaticCSP: withoutUpgrade,
      // Hides the bar that loads other OpenAPI documents.
      theme: { title: 'Bursar', css: [{ filename: 'bursar.css', content: '.swagger-ui .topbar { display: none }' }] },
    });
    instance.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
    instance.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
      reply.type('text/markdown; charset=utf-8').send(errorReference()),
    );
  });
}

/** Gives the wildcard `*` of the router a name, which OpenAPI requires. */
function withNamedPath(schema: FastifySchema | undefined): FastifySchema {
  const params = schema?.params as TObject | undefined;
  if (params?.properties?.['*'] === undefined) return schema ?? {};
  const { '*': path, ...named } = params.properties;
  return { ...schema, params: Type.Object({ ...named, path }) };
}

/** On a private network Bursar may be served over plain HTTP, where an upgrade to HTTPS would fail. */
function withoutUpgrade(header: string): string {
  return header.replace(/;?\s*upgrade-insecure-requests;?/, ';');
}

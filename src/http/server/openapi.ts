import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyReply, FastifySchema } from 'fastify';
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

/** The schema of a route: what it is, what it answers, and that anything else is a problem document. */
export function describe(tag: string, summary: string, response: Record<number, TSchema>) {
  return { tags: [tag], summary, response: { ...response, '4xx': problem, '5xx': problem } };
}

/** Sends JSON that is already text: the public objects are written once, by the writers made from their schemas. */
export function sendJson(reply: FastifyReply, status: number, json: string, type = 'application/json'): FastifyReply {
  return reply.code(status).header('content-type', type).send(Buffer.from(json));
}

/** Serves the description of the interface, made from the schemas of the routes, and a page to read it on. */
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
        description: 'Submit jobs to HPC systems, follow them, and read quotas of time and space.',
      },
      tags: [
        { name: 'jobs', description: 'Submitting and following jobs' },
        { name: 'files', description: 'What jobs leave behind' },
        { name: 'events', description: 'What happens, as it happens' },
        { name: 'webhooks', description: 'Events that are sent to you' },
        { name: 'quotas', description: 'What is left' },
        { name: 'systems', description: 'What the HPC systems take, and how they do' },
        { name: 'administration', description: 'For administrators' },
        { name: 'operation', description: 'For the operators of the service' },
      ],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
      security: [{ bearer: [] }],
    },
    transform: ({ schema, url }) => ({ schema: withNamedPath(schema), url: url.replace(/\*$/, ':path') }),
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => String(json.$id ?? `schema-${i}`) },
  });
  await app.register(async (scope) => {
    scope.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply));
    await scope.register(swaggerUi, {
      routePrefix: '/docs',
      staticCSP: true,
      transformStaticCSP: withoutUpgrade,
      // Without the bar that would have one explore other interfaces.
      theme: { title: 'Bursar', css: [{ filename: 'bursar.css', content: '.swagger-ui .topbar { display: none }' }] },
    });
    scope.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
    scope.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
      reply.type('text/markdown; charset=utf-8').send(errorReference()),
    );
  });
}

/** What the router calls `*` is a path, and OpenAPI wants it named. */
function withNamedPath(schema: FastifySchema | undefined): FastifySchema {
  const params = schema?.params as TObject | undefined;
  if (params?.properties?.['*'] === undefined) return schema ?? {};
  const { '*': path, ...others } = params.properties;
  return { ...schema, params: Type.Object({ ...others, path }) };
}

/** Bursar may be served over plain HTTP on a private network, where there is nothing to upgrade to. */
function withoutUpgrade(header: string): string {
  return header.replace(/;?\s*upgrade-insecure-requests;?/, ';');
}

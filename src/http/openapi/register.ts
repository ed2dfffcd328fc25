import swagger from '@fastify/swagger';
import type { FastifyInstance, FastifySchema } from 'fastify';
import Type, { type TObject } from 'typebox';
import type { RateLimits } from '../limits/rate-limits.ts';
import { completeDocument, type ExampleSystem } from './complete-document.ts';
import { componentSchemas, stageSchema } from './component-schemas.ts';
import { registerDocsPages } from './docs-page.ts';
import type { OpenApiDocument } from './document-types.ts';

const tags = [
  { name: 'jobs', description: 'Submit, read, cancel and delete jobs' },
  { name: 'files', description: 'Files that jobs produce' },
  { name: 'events', description: 'Changes to jobs and quotas as they happen' },
  { name: 'webhooks', description: 'Events sent to a URL of yours' },
  { name: 'quotas', description: 'Remaining time and space, quotes, statements and usage' },
  { name: 'account', description: 'Your account, and your tokens' },
  { name: 'systems', description: 'Limits, tools and health of the HPC systems' },
  { name: 'administration', description: 'Requests for administrators' },
  { name: 'clients', description: 'The command line and the libraries, to install from this server' },
  { name: 'operation', description: 'Probes and metrics for the operators of the service' },
];

/**
 * Serves the OpenAPI document, and pages to browse it. The document is generated from the schemas of the routes when it is
 * first requested.
 */
export async function registerOpenApi(
  app: FastifyInstance,
  version: string,
  systems: readonly ExampleSystem[],
  limits: Pick<RateLimits, 'anonymous'>,
): Promise<void> {
  for (const schema of componentSchemas) app.addSchema(schema);
  app.addSchema(stageSchema(systems.map(({ system }) => system)));
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Bursar',
        version,
        description:
          'Submits jobs to HPC systems, reports their progress, and accounts for time and space. Every request needs a ' +
          'token, except those tagged `operation` and those with which programs and browsers sign in. All errors are problem documents; [their codes](/docs/errors).',
        contact: { name: 'The operators of this service' },
        license: { name: 'Apache 2.0', identifier: 'Apache-2.0' } as { name: string },
      },
      servers: [{ url: '/', description: 'The server that serves this document' }],
      tags,
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer' },
          session: { type: 'apiKey', in: 'cookie', name: '__Host-bursar_session' },
        },
      },
      security: [{ bearer: [] }],
    },
    transform: ({ schema, url }) => ({ schema: withNamedPath(schema), url: url.replace(/\*$/, ':path') }),
    transformObject: (documents) => {
      const { openapiObject } = documents as unknown as { openapiObject: OpenApiDocument };
      // A batch system is the better example: its jobs need no zip.
      const example = systems.find(({ system }) => system.kind === 'batch') ?? systems[0];
      return completeDocument(openapiObject, example);
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, i) => String(json.$id ?? `schema-${i}`) },
  });
  await app.register(async (instance) => {
    instance.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply));
    registerDocsPages(instance);
    instance.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
  });
}

/** Gives the wildcard `*` of the router a name, which OpenAPI requires. */
function withNamedPath(schema: FastifySchema | undefined): FastifySchema {
  const params = schema?.params as TObject | undefined;
  if (params?.properties?.['*'] === undefined) return schema ?? {};
  const { '*': path, ...named } = params.properties;
  return { ...schema, params: Type.Object({ ...named, path }) };
}

import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { errorReference } from './error-reference.ts';

/** Serves the pages for people: the API reference, where requests can be sent, and the error codes. */
export async function registerDocsPages(app: FastifyInstance): Promise<void> {
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    transformStaticCSP: withoutUpgrade,
    // Hides the bar that loads other OpenAPI documents.
    theme: { title: 'Bursar', css: [{ filename: 'bursar.css', content: '.swagger-ui .topbar { display: none }' }] },
  });
  app.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
    reply.type('text/markdown; charset=utf-8').send(errorReference()),
  );
}

/** On a private network Bursar may be served over plain HTTP, where an upgrade to HTTPS would fail. */
function withoutUpgrade(header: string): string {
  return header.replace(/;?\s*upgrade-insecure-requests;?/, ';');
}

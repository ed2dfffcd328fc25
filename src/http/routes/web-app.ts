import { existsSync } from 'node:fs';
import type { SendOptions } from '@fastify/send';
import type { FastifyInstance, FastifyReply } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import { startPage } from '../request/browser.ts';
import { sendStaticFile } from '../response/static-file.ts';
import { addResource } from './resource.ts';

/** Scripts, styles and data from this server only. Previews of images are read by the page and shown as blobs. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

/** Views keep their filters in the query, which only the page reads. */
const schema = { hide: true, querystring: Type.Object({}, { additionalProperties: true }) };
const page = { access: null, isPage: true, schema } as const;

/**
 * Serves the web page. It needs no session: the page itself has no data, and asks the user to sign in. `folder` is null if the
 * server runs from its sources.
 */
export function webAppRoutes(app: FastifyInstance, folder: string | null): void {
  const root = folder !== null && existsSync(folder) ? folder : null;

  async function sendFile(reply: FastifyReply, path: string, options: SendOptions): Promise<FastifyReply> {
    if (root !== null) return await sendStaticFile(reply, root, path, options);
    const message = 'This server has no web page, because its build is missing: restart it with npm start.';
    throw new BursarError('not_found', message);
  }

  function sendIndex(reply: FastifyReply): Promise<FastifyReply> {
    reply
      .header('content-security-policy', contentSecurityPolicy)
      .header('referrer-policy', 'same-origin')
      .header('cross-origin-opener-policy', 'same-origin')
      .header('cache-control', 'no-cache');
    return sendFile(reply, 'index.html', { cacheControl: false });
  }

  // By GET only, and only for browsers: API clients get the same 404 as from any unknown path.
  app.get('/', { schema, config: { access: null } }, async (request, reply) => {
    reply.header('vary', 'Accept');
    if (request.headers.accept?.includes('text/html')) return reply.redirect(startPage, 302);
    throw new BursarError('not_found', 'There is nothing at this path. See /docs/.');
  });

  addResource(app, '/app/', { GET: { ...page, handler: (_request, reply) => sendIndex(reply) } });
  addResource(app, '/app/*', {
    GET: {
      ...page,
      handler: (request, reply) => {
        const { '*': path } = request.params as { '*': string };
        // The names of these files have the hash of their content.
        if (path.startsWith('assets/')) return sendFile(reply, path, { maxAge: '365d', immutable: true });
        if (path === 'favicon.svg') return sendFile(reply, path, { maxAge: '1d' });
        // Every other path is a view: the router in the browser knows them.
        return sendIndex(reply);
      },
    },
  });
}

import { existsSync } from 'node:fs';
import type { SendOptions } from '@fastify/send';
import type { FastifyReply } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { page } from '../operation.ts';
import { startPage } from '../request/browser.ts';
import { sendStaticFile } from '../response/static-file.ts';

/** Scripts, styles and data from this server only. Previews of images are read by the page and shown as blobs. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; form-action 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'";

/**
 * Serves the web page. It needs no session: the page itself has no data, and asks the user to sign in. `folder` is null if the
 * server runs from its sources.
 */
export function webAppRoutes(folder: string | null) {
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

  // Views keep their filters in the query, which only the page reads.
  return [
    // Only for browsers: API clients get the same 404 as from any unknown path.
    page({
      route: 'GET /',
      errors: 'problem',
      anyQuery: true,
      handler: (request, reply) => {
        reply.header('vary', 'Accept');
        if (request.headers.accept?.includes('text/html')) return reply.redirect(startPage, 302);
        throw new BursarError('not_found', 'There is nothing at this path. See /docs/.');
      },
    }),
    page({ route: 'GET /app/', anyQuery: true, handler: (_request, reply) => sendIndex(reply) }),
    page({
      route: 'GET /app/{path}',
      anyQuery: true,
      handler: ({ params: { path } }, reply) => {
        // The names of these files have the hash of their content.
        if (path.startsWith('assets/')) return sendFile(reply, path, { maxAge: '365d', immutable: true });
        if (path === 'favicon.svg') return sendFile(reply, path, { maxAge: '1d' });
        // Every other path is a view: the router in the browser knows them.
        return sendIndex(reply);
      },
    }),
  ];
}

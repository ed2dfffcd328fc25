import type { FastifyInstance } from 'fastify';

/** Makes forms the only bodies that the routes of this context accept. A field that is sent twice has its last value. */
export function acceptForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) =>
    done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
}

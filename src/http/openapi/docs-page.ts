import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { errorPage } from './error-reference.ts';

/** Serves the pages for people: the API reference, where requests can be sent, and the error codes. */
export async function registerDocsPages(app: FastifyInstance): Promise<void> {
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: {
      'default-src': "'self'",
      // Its style sheet has icons in it.
      'img-src': "'self' data:",
      'base-uri': "'none'",
      'frame-ancestors': "'none'",
      'object-src': "'none'",
    },
    theme: { title: 'Bursar' },
    // The other layout has a bar that loads other OpenAPI documents, with a style element in its logo.
    uiConfig: { layout: 'BaseLayout', plugins: [keepTokenInTab], requestInterceptor: prepareRequest } as object,
  });
  app.get('/docs/errors', { schema: { hide: true } }, (_request, reply) =>
    reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'")
      .send(errorPage()),
  );
}

// The functions below run in the browser: swagger-ui gets their source text, so they can use nothing of this module.

interface SwaggerUi {
  authActions: { restoreAuthorization(state: { authorized: unknown }): void };
  authSelectors: { authorized(): { toJS(): unknown } };
}

declare const sessionStorage: { getItem(key: string): string | null; setItem(key: string, value: string): void };

/**
 * A plugin of swagger-ui that keeps the token until the tab is closed. The option `persistAuthorization` would keep it in
 * localStorage forever.
 */
function keepTokenInTab() {
  const key = 'bursar-authorized';
  return {
    statePlugins: {
      auth: {
        wrapActions: {
          // Called after every login and logout.
          persistAuthorizationIfNeeded: (_original: unknown, system: SwaggerUi) => () => {
            sessionStorage.setItem(key, JSON.stringify(system.authSelectors.authorized().toJS()));
          },
        },
      },
      configs: {
        wrapActions: {
          // Called once, when swagger-ui has started.
          loaded: (original: () => unknown, system: SwaggerUi) => () => {
            const authorized = sessionStorage.getItem(key);
            if (authorized !== null) system.authActions.restoreAuthorization({ authorized: JSON.parse(authorized) });
            return original();
          },
        },
      },
    },
  };
}

/**
 * Writes the Payload in ASCII: a browser sends no other characters in a header. Without a token, the session of the browser
 * is used, which needs a header.
 */
function prepareRequest(request: { headers: Record<string, string> }) {
  request.headers['X-Bursar-Request'] = '1';
  const { Payload: payload } = request.headers;
  if (payload !== undefined) {
    const toEscape = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    request.headers.Payload = payload.replace(/[^ -~]/g, toEscape);
  }
  return request;
}

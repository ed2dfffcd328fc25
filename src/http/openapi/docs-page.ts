import { fileURLToPath } from 'node:url';
import { page } from '../operation.ts';
import { sendPage } from '../response/page.ts';
import { sendStaticFile } from '../response/static-file.ts';
import { errorPage } from './error-reference.ts';

/** Swagger UI itself. The build has a copy of it. */
const swaggerUiFolder = fileURLToPath(
  import.meta.url.endsWith('.cjs')
    ? new URL('./swagger-ui/', import.meta.url)
    : new URL('../../../node_modules/@fastify/swagger-ui/static/', import.meta.url),
);

const contentSecurityPolicy = [
  "default-src 'self'",
  // Its style sheet has icons in it.
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "object-src 'none'",
].join('; ');

/** The pages for people: the API reference, where requests can be sent, and the error codes. */
export const docsPages = () => [
  page({
    route: 'GET /docs',
    anyQuery: true,
    handler: (_request, reply) =>
      reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', contentSecurityPolicy)
        .send(referencePage),
  }),
  page({
    route: 'GET /docs/static/swagger-initializer.js',
    errors: 'problem',
    anyQuery: true,
    handler: (_request, reply) => reply.type('text/javascript; charset=utf-8').send(initializer()),
  }),
  page({
    route: 'GET /docs/static/{file}',
    errors: 'problem',
    anyQuery: true,
    handler: ({ params: { file } }, reply) =>
      sendStaticFile(reply.header('content-security-policy', contentSecurityPolicy), swaggerUiFolder, file),
  }),
  page({
    route: 'GET /docs/errors',
    anyQuery: true,
    handler: (_request, reply) => sendPage(reply, 200, { title: 'Errors', body: errorPage() }),
  }),
];

const referencePage = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Bursar</title>
<link rel="stylesheet" href="/docs/static/swagger-ui.css">
<link rel="stylesheet" href="/docs/static/index.css">
<link rel="icon" type="image/png" href="/docs/static/favicon-32x32.png" sizes="32x32">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/static/swagger-ui-bundle.js"></script>
<script src="/docs/static/swagger-initializer.js"></script>
</body>
</html>
`;

/** The script that starts Swagger UI. Its other layout has a bar that loads other OpenAPI documents. */
const initializer = () => `SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  layout: 'BaseLayout',
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [${keepTokenInTab}],
  requestInterceptor: ${prepareRequest},
});
`;

// The functions below run in the browser: the script has their source text, so they can use nothing of this module.

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

import { fileURLToPath } from 'node:url';
import { type ErrorCode, errorTitles } from '../../domain/errors.ts';
import { page } from '../operation.ts';
import { type Html, html, sendPage } from '../response/page.ts';
import { statusByCode } from '../response/problem.ts';
import { sendStaticFile } from '../response/static-file.ts';

/** Swagger UI itself. The build has a copy of it. */
const swaggerUiFolder = fileURLToPath(
  import.meta.url.endsWith('.cjs')
    ? new URL('./swagger-ui/', import.meta.url)
    : new URL('../../../node_modules/@fastify/swagger-ui/static', import.meta.url),
);

/** The style sheet of Swagger UI has icons in it. */
const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; object-src 'none'";

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

const example = `{
  "type": "/docs/errors#invalid_payload",
  "title": "${errorTitles.invalid_payload}",
  "status": 400,
  "code": "invalid_payload",
  "detail": "The Payload header is not valid. node_number: must be at least 1.",
  "request_id": "2486fc51-56d2-4aa0-9cc1-c0392e44d738",
  "errors": [{ "field": "node_number", "message": "must be at least 1" }]
}`;

const introduction = 'Every error is a problem document (RFC 9457, `application/problem+json`):';

const explanation = `\`code\` is stable and meant for programs. \`detail\` says what is wrong and what to do. \`errors\` lists the invalid
fields, if there are any. \`request_id\` identifies the request in the logs; it is also in the \`X-Request-Id\` header of
every response. \`quota_exceeded\` also has \`resource\`, \`account\` (the \`pool\` of the project or the caller's \`cap\`),
\`unit\`, \`needed\` and \`available\`; \`too_many_jobs\` has the \`limit\`. A 405 has an \`Allow\` header, a 401 a
\`WWW-Authenticate\` header; a 503, a 429 and \`idempotency_key_in_use\` have a \`Retry-After\` header. A request that fails has
no effect: no job, no file, no held time.`;

const codes = Object.entries(statusByCode).map(([code, status]) => ({
  code,
  status,
  title: errorTitles[code as ErrorCode],
}));

/** The reference of all error codes in Markdown, stored in docs/errors.md. */
export function errorReference(): string {
  const rows = codes.map(({ code, status, title }) => `| <a id="${code}"></a>\`${code}\` | ${status} | ${title} |`);
  return `# Errors

${introduction}

\`\`\`json
${example}
\`\`\`

${explanation}

| code | status | meaning |
|---|---|---|
${rows.join('\n')}
`;
}

/** The same reference as a page. The `type` of a problem leads to the row of its code. */
export function errorPage(): Html {
  return html`<p>${withCode(introduction)}</p>
<pre>${example}</pre>
<p>${withCode(explanation)}</p>
<table>
<tr><th>code</th><th>status</th><th>meaning</th></tr>
${codes.map(({ code, status, title }) => html`<tr id="${code}"><td><a href="#${code}"><code>${code}</code></a></td><td>${status}</td><td>${title}</td></tr>\n`)}
</table>
<p><a href="/docs/">API reference</a></p>`;
}

const withCode = (markdown: string) =>
  markdown.split('`').map((text, index) => (index % 2 === 1 ? html`<code>${text}</code>` : html`${text}`));

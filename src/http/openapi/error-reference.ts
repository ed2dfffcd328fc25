import { type ErrorCode, errorTitles } from '../../domain/errors.ts';
import { type Html, html } from '../response/page.ts';
import { statusByCode } from '../response/problem.ts';

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

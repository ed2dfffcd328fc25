import { type ErrorCode, errorTitles } from '../../domain/errors.ts';
import { escapeHtml } from '../response/page.ts';
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
export function errorPage(): string {
  const rows = codes.map(
    ({ code, status, title }) =>
      `<tr id="${code}"><td><a href="#${code}"><code>${code}</code></a></td><td>${status}</td><td>${escapeHtml(title)}</td></tr>`,
  );
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta name="viewport" content="width=device-width">
<title>Bursar: errors</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
pre, code { font-size: 14px; background: #f4f4f4 }
pre { padding: 1rem; overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: 0.3rem 1rem 0.3rem 0.3rem; border-bottom: 1px solid #ddd }
tr:target { background: #fff3bf }
</style>
</head>
<body>
<h1>Errors</h1>
<p>${toHtml(introduction)}</p>
<pre>${escapeHtml(example)}</pre>
<p>${toHtml(explanation)}</p>
<table>
<thead><tr><th>code</th><th>status</th><th>meaning</th></tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>
<p><a href="/docs/">API reference</a></p>
</body>
</html>
`;
}

const toHtml = (markdown: string) => escapeHtml(markdown).replace(/`([^`]+)`/g, '<code>$1</code>');

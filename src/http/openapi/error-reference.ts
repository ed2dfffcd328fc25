import { type ErrorCode, errorTitles } from '../../domain/errors.ts';
import { statusByCode } from '../response/problem.ts';

/** The reference of all error codes, in Markdown. Served at /docs/errors and stored in docs/errors.md. */
export function errorReference(): string {
  const rows = Object.entries(statusByCode).map(
    ([code, status]) => `| <a id="${code}"></a>\`${code}\` | ${status} | ${errorTitles[code as ErrorCode]} |`,
  );
  return `# Errors

Every error is a problem document (RFC 9457, \`application/problem+json\`):

\`\`\`json
{
  "type": "/docs/errors#invalid_payload",
  "title": "${errorTitles.invalid_payload}",
  "status": 400,
  "code": "invalid_payload",
  "detail": "The Payload header is not valid. node_number: must be at least 1.",
  "request_id": "2486fc51-56d2-4aa0-9cc1-c0392e44d738",
  "errors": [{ "field": "node_number", "message": "must be at least 1" }]
}
\`\`\`

\`code\` is stable and meant for programs. \`detail\` says what is wrong and what to do. \`errors\` lists the invalid
fields, if there are any. \`request_id\` identifies the request in the logs; it is also in the \`X-Request-Id\` header of
every response. \`quota_exceeded\` also has \`resource\`, \`account\` (the \`pool\` of the project or the caller's \`cap\`),
\`unit\`, \`needed\` and \`available\`. A 405 has an \`Allow\` header, a 401 a \`WWW-Authenticate\` header; a 503, a 429 and
\`idempotency_key_in_use\` have a \`Retry-After\` header. A request that fails has no effect: no job, no file, no held time.

| code | status | meaning |
|---|---|---|
${rows.join('\n')}
`;
}

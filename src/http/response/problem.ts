import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError, type ErrorCode, errorTitles } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { html, sendPage } from './page.ts';
import { sendJson } from './send.ts';

/** The HTTP status of each error code. */
export const statusByCode = {
  bad_request: 400,
  invalid_payload: 400,
  invalid_content_disposition: 400,
  invalid_body: 400,
  invalid_zip: 400,
  start_file_missing: 400,
  idempotency_key_missing: 400,
  idempotency_key_invalid: 400,
  webhook_refused: 400,
  token_missing: 401,
  token_invalid: 401,
  session_ended: 401,
  sign_in_failed: 401,
  forbidden: 403,
  csrf_refused: 403,
  user_disabled: 403,
  insufficient_scope: 403,
  not_a_member: 403,
  banned: 403,
  project_closed: 403,
  no_grant: 403,
  quota_exceeded: 403,
  not_found: 404,
  system_unknown: 404,
  project_unknown: 404,
  job_unknown: 404,
  file_unknown: 404,
  quota_unknown: 404,
  user_unknown: 404,
  token_unknown: 404,
  session_unknown: 404,
  webhook_unknown: 404,
  method_not_allowed: 405,
  timeout: 408,
  conflict: 409,
  identity_conflict: 409,
  job_not_finished: 409,
  too_many_files: 409,
  idempotency_key_in_use: 409,
  too_many_webhooks: 409,
  too_many_tokens: 409,
  events_expired: 410,
  files_deleted: 410,
  too_large: 413,
  unsupported_encoding: 415,
  range_not_satisfiable: 416,
  expectation_failed: 417,
  idempotency_key_reused: 422,
  too_many_requests: 429,
  too_many_jobs: 429,
  too_many_listeners: 429,
  headers_too_large: 431,
  internal: 500,
  files_missing: 503,
  system_paused: 503,
  server_busy: 503,
  unavailable: 503,
  database_unavailable: 503,
  storage_unavailable: 503,
} as const satisfies Partial<Record<ErrorCode, number>>;

type PublicCode = keyof typeof statusByCode;

const ErrorCodeSchema = Type.Enum(Object.keys(statusByCode) as PublicCode[], {
  $id: 'ErrorCode',
  description: 'Stable identifier of the kind of error, for programs.',
});

/** Problem details (RFC 9457), with a stable code for programs. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'Path of the documentation of the code.' }),
    title: Type.String({ description: 'Short description of the code.' }),
    status: Type.Integer(),
    code: ErrorCodeSchema,
    detail: Type.String({ description: 'The error, and the way to correct it.' }),
    request_id: Type.String({ description: 'Identifies the request in the logs of the server.' }),
    errors: Type.Optional(
      Type.Array(Type.Object({ field: Type.String(), message: Type.String() }), { description: 'The invalid fields.' }),
    ),
    resource: Type.Optional(Type.Enum(['time', 'space'], { description: 'Of `quota_exceeded`: what is short.' })),
    account: Type.Optional(
      Type.Enum(['pool', 'cap'], { description: 'Of `quota_exceeded`: the quota of the project, or your own.' }),
    ),
    unit: Type.Optional(Type.String({ description: 'Of `quota_exceeded`: the unit of the amounts.' })),
    needed: Type.Optional(Type.Number({ description: 'Of `quota_exceeded`: the amount that the job needs.' })),
    available: Type.Optional(Type.Number({ description: 'Of `quota_exceeded`: the amount that is left.' })),
    limit: Type.Optional(Type.Integer({ description: 'Of `too_many_jobs`: the maximum number of unfinished jobs.' })),
  },
  { $id: 'Problem', additionalProperties: true },
);

export interface Problem {
  status: number;
  title: string;
  detail: string;
  /** The problem document. */
  body: string;
}

/** The response for an error. An error without a public code is a bug of ours, and its message is not sent. */
export function toProblem(error: unknown, requestId: string): Problem {
  const publicError = error instanceof BursarError && Object.hasOwn(statusByCode, error.code) ? error : undefined;
  const code = (publicError?.code ?? 'internal') as PublicCode;
  const status = statusByCode[code];
  const title = errorTitles[code];
  const detail =
    publicError?.message ??
    'The request failed because of an internal error. Report it to the operators with its request_id.';
  const body = JSON.stringify({
    type: `/docs/errors#${code}`,
    title,
    status,
    code,
    detail,
    request_id: requestId,
    ...publicError?.details,
    ...(publicError && publicError.fields.length > 0 && { errors: publicError.fields }),
  });
  return { status, title, detail, body };
}

/** No request of the API needs more. The zip of a submission is no JSON: `submissions.maxBodyKb` limits it. */
export const maxJsonBytes = 64 * 1024;

/** Errors of Fastify below 500 are the caller's. Everything else is unexpected. */
export function toRequestError(error: FastifyError): unknown {
  if (error instanceof BursarError) return error;
  const status = error.statusCode ?? 500;
  if (status === 413) {
    const message = `The request body is too large. Send at most ${formatBytes(maxJsonBytes)} of JSON.`;
    return new BursarError('too_large', message, { cause: error, details: { maxBytes: maxJsonBytes } });
  }
  return status < 500 ? new BursarError('bad_request', error.message, { cause: error }) : error;
}

/** Sends an error in the form that the route declares. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): Problem {
  const problem = toProblem(error, request.id);
  const { status, title, detail } = problem;
  const { code, retryAfterSeconds } = error instanceof BursarError ? error : {};
  if (status === 503 || retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds ?? 5));
  const form = request.routeOptions.config.route?.errors;
  if (form === 'page') {
    const body = html`<p>${detail}</p>
<p><a href="/sign-in/">Sign in</a></p>
<p>Request <code>${request.id}</code></p>`;
    sendPage(reply, status, { title, body });
  } else if (form === 'oauth' && code === 'invalid_body') {
    sendJson(reply, status, JSON.stringify({ error: 'invalid_request', error_description: detail }));
  } else {
    const challenge = toChallenge(status, error);
    if (challenge !== undefined) reply.header('www-authenticate', challenge);
    // Errors before the first hook need them too.
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    sendJson(reply, status, problem.body, 'application/problem+json');
  }
  return problem;
}

/** The WWW-Authenticate header, as RFC 6750 has it. */
function toChallenge(status: number, error: unknown): string | undefined {
  if (status === 401) return 'Bearer realm="bursar"';
  if (!(error instanceof BursarError) || error.code !== 'insufficient_scope') return undefined;
  const { scope } = error.details;
  // A token that is limited to a project may have the scope.
  return `Bearer realm="bursar", error="insufficient_scope"${scope === undefined ? '' : `, scope="${scope}"`}`;
}

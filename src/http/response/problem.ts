import Type from 'typebox';
import { BursarError, type ErrorCode, errorTitles } from '../../domain/errors.ts';

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

import Type from 'typebox';
import { BursarError, type ErrorCode, errorTitles } from '../../domain/errors.ts';

/** The one place where an error's code becomes a status. */
export const statusOf = {
  bad_request: 400,
  invalid_payload: 400,
  invalid_content_disposition: 400,
  invalid_body: 400,
  invalid_zip: 400,
  idempotency_key_missing: 400,
  idempotency_key_invalid: 400,
  webhook_refused: 400,
  token_missing: 401,
  token_invalid: 401,
  forbidden: 403,
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
  webhook_unknown: 404,
  method_not_allowed: 405,
  timeout: 408,
  conflict: 409,
  idempotency_key_in_use: 409,
  too_many_webhooks: 409,
  events_expired: 410,
  files_deleted: 410,
  too_large: 413,
  range_not_satisfiable: 416,
  expectation_failed: 417,
  idempotency_key_reused: 422,
  too_many_requests: 429,
  too_many_listeners: 429,
  headers_too_large: 431,
  internal: 500,
  system_paused: 503,
  unavailable: 503,
  database_unavailable: 503,
} as const satisfies Partial<Record<ErrorCode, number>>;

type PublicCode = keyof typeof statusOf;

/** Problem details (RFC 9457), with a stable code for programs. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'Where the code is explained.' }),
    title: Type.String({ description: 'The same for every error of this code.' }),
    status: Type.Integer(),
    code: Type.String({ description: 'Stable; for programs.', examples: ['quota_exceeded'] }),
    detail: Type.String({ description: 'What is wrong, and what to do about it.' }),
    request_id: Type.String({ description: 'Names this request in the logs.' }),
    errors: Type.Optional(
      Type.Array(Type.Object({ field: Type.String(), message: Type.String() }), {
        description: 'The fields at fault.',
      }),
    ),
  },
  { $id: 'Problem', additionalProperties: true },
);

export interface Problem {
  status: number;
  body: string;
}

/** What a caller is told of an error. Whatever is not a BursarError is our own fault, and its text stays inside. */
export function toProblem(error: unknown, requestId: string): Problem {
  const known = error instanceof BursarError && isPublic(error.code) ? error : undefined;
  const code: PublicCode = known && isPublic(known.code) ? known.code : 'internal';
  const status = statusOf[code];
  const body = JSON.stringify({
    type: `/docs/errors#${code}`,
    title: errorTitles[code],
    status,
    code,
    detail: known?.message ?? 'The request failed through no fault of yours. Its request_id names it in the logs.',
    request_id: requestId,
    ...known?.details,
    ...(known && known.fields.length > 0 ? { errors: known.fields } : {}),
  });
  return { status, body };
}

function isPublic(code: ErrorCode): code is PublicCode {
  return Object.hasOwn(statusOf, code);
}

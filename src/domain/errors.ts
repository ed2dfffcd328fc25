/**
 * Every way in which Bursar says no. The code is stable and meant for programs, the title for people;
 * `http/problem.ts` gives each code its status, and docs/errors.md is written from both.
 */
export const errorTitles = {
  bad_request: 'The request is malformed',
  invalid_payload: 'The Payload header is not acceptable',
  invalid_content_disposition: 'The Content-Disposition header is not acceptable',
  invalid_body: 'The request body is not acceptable',
  invalid_zip: 'The request body is not an acceptable zip file',
  token_missing: 'No bearer token was sent',
  token_invalid: 'The bearer token is not valid',
  forbidden: 'The caller may not do this',
  not_a_member: 'The caller is not a member of the project',
  banned: 'The caller is banned from the project',
  project_closed: 'The project takes no more jobs',
  no_grant: 'The project has no grant for now',
  quota_exceeded: 'The quota is too small for this job',
  not_found: 'There is no such thing here',
  system_unknown: 'There is no such HPC system',
  project_unknown: 'There is no such project on this HPC system',
  job_unknown: 'There is no such job',
  file_unknown: 'There is no such file',
  quota_unknown: 'There is no such quota',
  user_unknown: 'There is no such user',
  files_deleted: 'The files of the job have been deleted',
  webhook_unknown: 'There is no such webhook, or delivery of it',
  conflict: 'The request does not fit what is there',
  too_many_webhooks: 'The caller has as many webhooks as one may have',
  events_expired: 'The events asked for are no longer kept',
  webhook_refused: 'Events cannot be sent to this address',
  too_many_listeners: 'The caller listens too many times at once',
  idempotency_key_missing: 'The header Idempotency-Key is missing',
  idempotency_key_invalid: 'The header Idempotency-Key is not acceptable',
  idempotency_key_in_use: 'The request of the idempotency key is still being worked on',
  idempotency_key_reused: 'The idempotency key was used for another request',
  method_not_allowed: 'The path does not support this method',
  too_many_requests: 'The caller asks for too much at a time',
  timeout: 'The request took too long to arrive',
  too_large: 'The request body is too large',
  range_not_satisfiable: 'The bytes asked for are not there',
  expectation_failed: 'The server does not do what the request expects',
  headers_too_large: 'The request headers are too large',
  system_paused: 'The HPC system takes no jobs for now',
  unavailable: 'The service cannot do this just now',
  database_unavailable: 'The database cannot be reached just now',
  internal: 'Something went wrong inside Bursar',
  invalid_config: 'The configuration is not valid',
  invalid_argument: 'A command line argument is not acceptable',
  schema_too_new: 'The database was written by a newer Bursar',
  database_too_old: 'The database server is too old',
  data_in_use: 'Another Bursar is using this data folder',
  lease_lost: 'Another Bursar does this work now',
  job_refused: 'The HPC system cannot run this job as it is',
} as const;

export type ErrorCode = keyof typeof errorTitles;

export interface FieldError {
  field: string;
  message: string;
}

export interface BursarErrorOptions {
  /** The error underneath; for the log, never shown to a caller. */
  cause?: unknown;
  /** True when the same thing may succeed later without anybody changing anything. */
  transient?: boolean;
  fields?: readonly FieldError[];
  /** Further facts for the caller, such as the seconds needed and available. */
  details?: Readonly<Record<string, string | number>>;
  /** When it makes sense to try again. */
  retryAfterSeconds?: number;
}

/** The one error type of the house. Its message is safe to show to the caller. */
export class BursarError extends Error {
  readonly code: ErrorCode;
  readonly transient: boolean;
  readonly fields: readonly FieldError[];
  readonly details: Readonly<Record<string, string | number>>;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, extras: BursarErrorOptions = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.name = 'BursarError';
    this.code = code;
    this.transient = extras.transient ?? false;
    this.fields = extras.fields ?? [];
    this.details = extras.details ?? {};
    this.retryAfterSeconds = extras.retryAfterSeconds;
  }
}

/** Ends a `switch` over a union: a case that was forgotten does not compile. */
export function assertNever(value: never): never {
  throw new Error(`unreachable case: ${JSON.stringify(value)}`);
}

/** Returns the code of an operating system or Node error, such as ENOENT. */
export function systemErrorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

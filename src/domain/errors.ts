/**
 * All error codes with their titles. Codes are stable and meant for programs, titles are for people.
 * `http/response/problem.ts` maps each code to an HTTP status; docs/errors.md is generated from both.
 */
export const errorTitles = {
  bad_request: 'The request is malformed',
  invalid_payload: 'The Payload header is not valid',
  invalid_content_disposition: 'The Content-Disposition header is not valid',
  invalid_body: 'The request body is not valid',
  invalid_zip: 'The request body is not a valid zip file, or not a safe one',
  start_file_missing: 'The zip lacks the file that the job starts with',
  token_missing: 'No bearer token was sent',
  token_invalid: 'The bearer token is not valid',
  session_ended: 'The session is not valid, or has ended',
  sign_in_failed: 'The sign-in has failed',
  csrf_refused: 'The request does not come from a page of this server',
  forbidden: 'The caller lacks the permission for this request',
  user_disabled: 'The user is disabled',
  insufficient_scope: 'The token lacks the scope for this request',
  not_a_member: 'The caller is not a member of the project',
  banned: 'The caller is banned from the project',
  project_closed: 'The project is closed and accepts no more jobs',
  no_grant: 'The project has no active grant',
  quota_exceeded: 'The job needs more than the remaining quota',
  not_found: 'The path does not exist',
  system_unknown: 'The HPC system does not exist',
  project_unknown: 'The project does not exist on this HPC system',
  job_unknown: 'The job does not exist',
  file_unknown: 'The file does not exist',
  quota_unknown: 'The quota does not exist',
  user_unknown: 'The user does not exist',
  token_unknown: 'The token does not exist',
  session_unknown: 'The session does not exist',
  files_missing: 'The files of the job are not where the server expects them',
  files_deleted: 'The files of the job have been deleted',
  webhook_unknown: 'The webhook or delivery does not exist',
  conflict: 'The request conflicts with the current state',
  identity_conflict: 'The user exists, and is not linked to this identity',
  job_not_finished: 'The job has not ended',
  too_many_files: 'The folder has more files than can be listed or packed',
  too_many_webhooks: 'The caller has reached the maximum number of webhooks',
  too_many_tokens: 'The caller has reached the maximum number of valid tokens',
  events_expired: 'The requested events have expired',
  webhook_refused: 'Webhooks to this URL are not allowed',
  too_many_jobs: 'The caller or the project has too many unfinished jobs',
  too_many_listeners: 'The caller has too many open event streams, long polls or followed logs',
  idempotency_key_missing: 'The Idempotency-Key header is missing',
  idempotency_key_invalid: 'The Idempotency-Key header is not valid',
  idempotency_key_in_use: 'A request with this idempotency key is still in progress',
  idempotency_key_reused: 'The idempotency key was already used for a different request',
  method_not_allowed: 'The path does not support this method',
  too_many_requests: 'The caller has exceeded a rate limit',
  timeout: 'The request did not arrive in time',
  too_large: 'The request body is too large',
  unsupported_encoding: 'The request body has a Content-Encoding',
  range_not_satisfiable: 'The requested byte range does not exist',
  expectation_failed: 'The server cannot meet the Expect header',
  headers_too_large: 'The request headers are too large',
  system_paused: 'The HPC system is paused and accepts no jobs',
  server_busy: 'All users together have reached a limit of the server',
  unavailable: 'The service is temporarily unavailable',
  database_unavailable: 'The database is temporarily unavailable',
  storage_unavailable: 'The server cannot store data at the moment, because its disk is full or read-only',
  internal: 'Internal error',
  invalid_config: 'The configuration is not valid',
  invalid_argument: 'A command line argument is not valid',
  schema_unknown: 'The database was created by another version of Bursar',
  schema_differs: 'The schema of the database is not the expected one',
  database_too_old: 'The version of the database server is not supported',
  data_in_use: 'Another Bursar instance is using this data folder',
  lease_lost: 'Another Bursar instance holds the lease now',
  job_refused: 'The HPC system rejected the job',
  queue_full: 'The queue of the HPC system accepts no more jobs at the moment',
} as const;

export type ErrorCode = keyof typeof errorTitles;

export interface FieldError {
  field: string;
  message: string;
}

export interface BursarErrorOptions {
  /** The underlying error, for the log. Callers never see it. */
  cause?: unknown;
  /** True if a retry of the same operation may succeed. */
  transient?: boolean;
  fields?: readonly FieldError[];
  /** Machine-readable details for the caller, such as the seconds needed and available. */
  details?: Readonly<Record<string, string | number>>;
  retryAfterSeconds?: number;
}

/** The only error type that Bursar throws on purpose. Its message is safe to show to the caller. */
export class BursarError extends Error {
  readonly code: ErrorCode;
  readonly transient: boolean;
  readonly fields: readonly FieldError[];
  readonly details: Readonly<Record<string, string | number>>;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, options: BursarErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'BursarError';
    this.code = code;
    this.transient = options.transient ?? false;
    this.fields = options.fields ?? [];
    this.details = options.details ?? {};
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** A full disk rarely lasts for less. */
const storageRetrySeconds = 30;
const fullDiskCodes = new Set(['ENOSPC', 'EDQUOT', 'SQLITE_FULL', '53100']);

/** The error of a write that the disk refused. `code` is that of the file system or of the database. Nothing was written. */
export function storageUnavailable(code: string, cause: unknown): BursarError {
  const problem = fullDiskCodes.has(code) ? 'is full' : 'cannot be written';
  const message = `The disk of the server ${problem} (${code}). Try again later, when its operators have corrected that.`;
  const options = { cause, transient: true, retryAfterSeconds: storageRetrySeconds };
  return new BursarError('storage_unavailable', message, options);
}

/** Ends a `switch` over a union, so that a forgotten case is a compile error. */
export function assertNever(value: never): never {
  throw new Error(`unreachable case: ${JSON.stringify(value)}`);
}

/** Returns the code of an operating system or Node error, such as ENOENT. */
export function errnoCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Makes untrusted text safe for logs and terminals. */
export function toPrintable(text: string, maxLength: number): string {
  const start = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return start.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?');
}

import type { ErrorCode, Problem } from './generated/types.ts';

/** A problem document; the endpoints of the device flow have `error` and `error_description` instead. */
type ProblemBody = Partial<Problem> & { error?: string; error_description?: string };

/** The server refused the request. `code` says why, for programs; the message says it to people. */
export class ApiError extends Error {
  override name = 'ApiError';
  /** `unexpected_response` if something in front of Bursar answered, such as a proxy. */
  readonly code: ErrorCode | 'unexpected_response' | (string & {});
  readonly status: number;
  /** Says what is wrong and what to do about it. */
  readonly detail: string;
  /** The invalid fields of the request. */
  readonly fields: readonly { field: string; message: string }[];
  /** Identifies the request in the logs of the server. */
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** The whole document, with the members that only some codes have, such as `needed` and `available`. */
  readonly problem: ProblemBody;

  constructor(status: number, problem: ProblemBody, headers: Headers) {
    const detail = problem.detail ?? problem.error_description ?? problem.error ?? describeStatus(status, headers);
    super(detail);
    this.code = problem.code ?? problem.error ?? 'unexpected_response';
    this.status = status;
    this.detail = detail;
    this.fields = problem.errors ?? [];
    this.requestId = problem.request_id ?? headers.get('x-request-id') ?? undefined;
    const retryAfter = headers.get('retry-after');
    this.retryAfterSeconds = retryAfter === null ? undefined : parseRetryAfter(retryAfter);
    this.problem = problem;
  }

  static async from(response: Response): Promise<ApiError> {
    const text = await response.text();
    return new ApiError(response.status, parseProblem(text), response.headers);
  }
}

/** The token cannot be sent. The message does not contain it, unlike that of `fetch`. */
export class TokenError extends Error {
  override name = 'TokenError';
  readonly code = 'token_malformed';

  constructor() {
    super('The token has spaces, line breaks or other characters that a token never has.');
  }
}

/** No response arrived, or it was cut off. */
export class ConnectionError extends Error {
  override name = 'ConnectionError';
  readonly code = 'server_unreachable';

  constructor(url: string, cause: unknown) {
    super(`${url} cannot be reached: ${rootMessage(cause)}`, { cause });
  }
}

/** Reads JSON. A proxy or a sign-in page in front of the server may answer with something else, also with status 200. */
export async function readJson(response: Response): Promise<unknown> {
  const value = parseObject(await response.text());
  if (value) return value;
  const { status, headers, url } = response;
  throw new ApiError(status, { detail: `${url.split('?')[0]} does not answer as Bursar does.` }, headers);
}

function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Drops members that have other types than those of a problem document: anything in front of Bursar may have answered. */
function parseProblem(text: string): ProblemBody {
  const texts = ['detail', 'code', 'error', 'error_description', 'request_id'];
  const isValid = ([name, value]: [string, unknown]) =>
    texts.includes(name) ? typeof value === 'string' : name !== 'errors' || Array.isArray(value);
  return Object.fromEntries(Object.entries(parseObject(text) ?? {}).filter(isValid));
}

/** A redirect is not followed, because the token would go to another place. The user can decide to. */
function describeStatus(status: number, headers: Headers): string {
  const location = status < 400 ? headers.get('location') : null;
  return location ? `The server has moved to ${location}` : `The response has status ${status}.`;
}

/** Seconds, or a date. */
function parseRetryAfter(value: string): number | undefined {
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/** `fetch` says only that it failed. The reason is in the cause. */
function rootMessage(error: unknown): string {
  const { message, code, cause } = Object(error) as Error & { code?: string };
  if (cause instanceof Error) return rootMessage(cause);
  return message || code || String(error);
}

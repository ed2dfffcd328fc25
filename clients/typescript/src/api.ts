import { readJson } from './errors.ts';
import { type OperationTypes, operations } from './generated/operations.ts';
import type { Http, RequestBody } from './http.ts';

type OperationId = keyof OperationTypes;
/** Returns the bytes of the zip for one attempt; every attempt needs the same bytes. */
export type ZipBody = Blob | Uint8Array<ArrayBuffer> | (() => RequestBody);

/** `json`, `text` or `response`: the form in which the caller wants the response. Each operation has a default. */
export type ResponseForm = 'json' | 'text' | 'response';

/** Numbers, such as the id of a token, need not be turned into text. */
type PathValues<Data> = Data extends { path: infer Path }
  ? { path: { [Name in keyof Path]: string | number } }
  : unknown;

type Parameters<Id extends OperationId> = Omit<OperationTypes[Id]['data'], 'url' | 'body' | 'path'> &
  PathValues<OperationTypes[Id]['data']> &
  (OperationTypes[Id]['body'] extends 'zip' ? { body?: ZipBody } : Pick<OperationTypes[Id]['data'], 'body'>);

export type OperationOptions<Id extends OperationId> = Parameters<Id> & {
  signal?: AbortSignal | undefined;
  /** Number of repetitions. Default: that of the client. */
  retries?: number | undefined;
  as?: ResponseForm;
};

export type OperationResult<Id extends OperationId, Options> = Options extends { as: 'text' }
  ? string
  : Options extends { as: 'response' }
    ? Response
    : Options extends { as: 'json' }
      ? unknown
      : OperationTypes[Id]['result'];

/** All operations of the OpenAPI document, by their operationId. */
export type Api = {
  [Id in OperationId]: <const Options extends OperationOptions<Id>>(
    ...options: object extends Parameters<Id> ? [options?: Options] : [options: Options]
  ) => Promise<OperationResult<Id, Options>>;
};

interface AnyOptions {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  headers?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
  retries?: number;
  as?: ResponseForm;
  /** Replaces `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

export function createApi(http: Http): Api {
  const methods = Object.keys(operations).map((id) => [
    id,
    (options?: AnyOptions) => callOperation(http, id as OperationId, options),
  ]);
  return Object.fromEntries(methods);
}

function callOperation(http: Http, id: OperationId, options: AnyOptions = {}): Promise<unknown> {
  const [method, path, bodyKind, responseKind, retry] = operations[id];
  const { signal, retries, as = responseKind } = options;
  const headers = toHeaders(options.headers);
  if (as === 'json') headers.accept ??= 'application/json';
  if (retry === 'key') headers['idempotency-key'] ??= randomKey();
  const body = toBody(bodyKind, options.body, headers);
  const isRepeatable = retry !== 'never';
  const request = { method, path: fillPath(path, options), headers, body, signal, retries, isRepeatable };
  return http.send({ ...request, ...(options.fetch ? { fetch: options.fetch } : {}) }, async (response) => {
    if (as === 'response') return response;
    return as === 'text' ? await response.text() : await readJson(response);
  });
}

function fillPath(template: string, { path = {}, query = {} }: AnyOptions): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = encodeURIComponent(String(path[name]));
    // The path of a file has slashes of its own.
    return name === 'path' ? value.replaceAll('%2F', '/') : value;
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const item of Array.isArray(value) ? value : [value])
      if (item !== undefined && item !== null) search.append(name, String(item));
  const text = String(search);
  return text === '' ? filled : `${filled}?${text}`;
}

/** A header that is an object, the Payload, becomes JSON in ASCII: headers have no other characters. */
function toHeaders(values: Record<string, unknown> = {}): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    headers[name.toLowerCase()] = typeof value === 'object' ? asciiJson(value) : String(value);
  }
  return headers;
}

function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function toBody(kind: string, body: unknown, headers: Record<string, string>): (() => RequestBody) | undefined {
  if (body === undefined) return undefined;
  if (kind === 'zip') {
    headers['content-type'] ??= 'application/zip';
    return typeof body === 'function' ? (body as () => RequestBody) : () => body as RequestBody;
  }
  if (kind === 'form') return () => new URLSearchParams(body as Record<string, string>);
  headers['content-type'] ??= 'application/json';
  const json = JSON.stringify(body);
  return () => json;
}

/** 128 random bits. (`crypto.randomUUID` is missing on pages that were loaded without TLS.) */
export function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

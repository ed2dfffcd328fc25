import { ApiError, ConnectionError, TokenError } from './errors.ts';
import { retryDelayMs, shouldRetry, sleep } from './retry.ts';

export interface ClientOptions {
  /** Address of the server. Default: that of the page, in a browser. */
  url?: string;
  /** The token, or a function that returns the current one. Without it the cookie of a browser's session counts. */
  token?: string | (() => Promise<string>) | undefined;
  /** Number of repetitions of a request that failed for a reason that may pass. Default: 5. */
  retries?: number;
  /** Gets one line for each response and each failure, without secrets. */
  onRequest?: (line: string) => void;
}

/** The bodies that `fetch` of browsers and of Node take. */
export type RequestBody = Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | URLSearchParams | string;

export interface RequestOptions {
  method: string;
  /** Begins with a slash, and may have a query. */
  path: string;
  headers?: Record<string, string>;
  /** Returns the body of an attempt. Every attempt needs the same bytes. */
  body?: (() => RequestBody) | undefined;
  /** Whether the request may be repeated: it changes nothing twice. */
  isRepeatable: boolean;
  signal?: AbortSignal | undefined;
  /** Number of repetitions. Default: that of the client. */
  retries?: number | undefined;
  /** Replaces `fetch`, such as for the progress of an upload. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** Sends requests, and repeats those that may be repeated. */
export interface Http {
  url: string;
  retries: number;
  /**
   * Resolves with the result of `read`, which must read the response: if it is cut off meanwhile, the request is repeated.
   * Throws an `ApiError` for every status from 400, and for 3xx; a `ConnectionError` if there is no complete response.
   */
  send<T>(request: RequestOptions, read: (response: Response) => Promise<T>): Promise<T>;
}

export function createHttp({ url = '', token, retries = 5, onRequest }: ClientOptions): Http {
  const base = (url && new URL(url).href).replace(/\/+$/, '');

  async function attempt<T>(request: RequestOptions, number: number, read: (response: Response) => Promise<T>) {
    const { method, path, signal } = request;
    const startedAt = Date.now();
    const report = (result: string) =>
      onRequest?.(
        `${method} ${path} ${result} (${Date.now() - startedAt} ms${number > 0 ? `, repetition ${number}` : ''})`,
      );
    // Outside of the try block: a header that is not valid is no failure of the network.
    const init = toInit(request, typeof token === 'function' ? await token() : token);
    try {
      const response = await (request.fetch ?? fetch)(base + path, init);
      report(String(response.status));
      if (!response.ok) throw await ApiError.from(response);
      return await read(response);
    } catch (error) {
      // `fetch` throws a TypeError if there is no connection, and if the body of a response is cut off.
      if (signal?.aborted || !(error instanceof TypeError)) throw error;
      const failure = new ConnectionError(base || 'The server', error);
      report(failure.message);
      throw failure;
    }
  }

  return {
    url: base,
    retries,
    async send(request, read) {
      for (let number = 0; ; number++) {
        try {
          return await attempt(request, number, read);
        } catch (error) {
          if (number >= (request.retries ?? retries) || !request.isRepeatable || !shouldRetry(error)) throw error;
          await sleep(retryDelayMs(error, number), request.signal);
        }
      }
    },
  };
}

/**
 * Node needs `duplex` for streams. With any other value of `redirect` and `window` Node keeps a copy of all that was sent, so
 * that an upload of a gigabyte would need a gigabyte of memory.
 */
const streamInit = { duplex: 'half', redirect: 'error', window: null } as object;

function toInit({ method, headers, body, signal }: RequestOptions, token: string | undefined): RequestInit {
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) throw new TokenError();
  const content = body?.();
  return {
    method,
    headers: new Headers({
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      // Other sites cannot send this header, so the server accepts the cookie with it.
      ...(token === undefined && method !== 'GET' ? { 'x-bursar-request': '1' } : {}),
      ...headers,
    }),
    // A redirect would send the token, or the zip, to another place.
    redirect: 'manual',
    credentials: token === undefined ? 'same-origin' : 'omit',
    ...(signal ? { signal } : {}),
    ...(content === undefined ? {} : { body: content }),
    ...(content instanceof ReadableStream ? streamInit : {}),
  };
}

/** The part of XMLHttpRequest that is used here. Node has none. */
interface Xhr {
  upload: { onprogress: ((event: { loaded: number }) => void) | null };
  responseType: string;
  response: unknown;
  status: number;
  onload: (() => void) | null;
  onerror: (() => void) | null;
  onabort: (() => void) | null;
  open(method: string, url: string): void;
  setRequestHeader(name: string, value: string): void;
  getAllResponseHeaders(): string;
  send(body: unknown): void;
  abort(): void;
}

const { XMLHttpRequest } = globalThis as { XMLHttpRequest?: new () => Xhr };

/** `fetch` with the progress of the upload, in browsers. A cookie of another origin is not sent, as with `same-origin`. */
export const xhrFetch =
  XMLHttpRequest &&
  ((onSent: (bytes: number) => void) =>
    (url: string, { method = 'GET', headers, body, signal }: RequestInit): Promise<Response> =>
      new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        request.open(method, url);
        request.responseType = 'blob';
        for (const [name, value] of headers as Headers) request.setRequestHeader(name, value);
        request.upload.onprogress = ({ loaded }) => onSent(loaded);
        request.onload = () => resolve(toResponse(request));
        request.onerror = () => reject(new TypeError('the upload was cut off'));
        request.onabort = () => reject(signal?.reason);
        signal?.addEventListener('abort', () => request.abort(), { once: true });
        if (signal?.aborted) reject(signal.reason);
        else request.send(body);
      }));

function toResponse(request: Xhr): Response {
  const lines = request.getAllResponseHeaders().trim().split('\r\n').filter(Boolean);
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  // A Response with one of these statuses may have no body.
  const body = [204, 304].includes(request.status) ? null : (request.response as Blob);
  return new Response(body, { status: request.status, headers });
}

import { parseSetCookie, type SetCookie } from 'cookie';

export interface BrowserResponse {
  status: number;
  headers: Headers;
  text: string;
  /** The target of a redirect. */
  location: string | null;
}

interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

/** An HTTP client that keeps cookies and follows no redirects, to look at each step of a sign-in. */
export interface BrowserClient {
  cookies: Map<string, SetCookie>;
  /** The URL may be of another host, such as that of an OpenID provider. */
  request(pathOrUrl: string, options?: RequestOptions): Promise<BrowserResponse>;
  get(pathOrUrl: string): Promise<BrowserResponse>;
  /** Sends a form as a page of the same server does. */
  submit(pathOrUrl: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<BrowserResponse>;
  /** Sends a request as a script of a page of the same server does. */
  script(method: string, path: string): Promise<BrowserResponse>;
}

export function createBrowserClient(url: string): BrowserClient {
  const cookies = new Map<string, SetCookie>();

  async function request(pathOrUrl: string, { method = 'GET', headers = {}, body }: RequestOptions = {}) {
    const cookie = [...cookies.values()].map(({ name, value }) => `${name}=${value}`).join('; ');
    const response = await fetch(new URL(pathOrUrl, url), {
      method,
      headers: { ...(cookie === '' ? {} : { cookie }), ...headers },
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
    });
    for (const line of response.headers.getSetCookie()) {
      const parsed = parseSetCookie(line);
      const isDeleted = parsed.maxAge === 0 || (parsed.expires !== undefined && parsed.expires.getTime() < Date.now());
      if (isDeleted) cookies.delete(parsed.name);
      else cookies.set(parsed.name, parsed);
    }
    const { status, headers: responseHeaders } = response;
    const location = responseHeaders.get('location');
    return { status, headers: responseHeaders, text: await response.text(), location };
  }

  return {
    cookies,
    request,
    get: (pathOrUrl) => request(pathOrUrl),
    submit: (pathOrUrl, fields, headers = {}) =>
      request(pathOrUrl, {
        method: 'POST',
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          origin: new URL(pathOrUrl, url).origin,
          ...headers,
        },
        body: String(new URLSearchParams(fields)),
      }),
    script: (method, path) =>
      request(path, { method, headers: { origin: new URL(url).origin, 'x-bursar-request': '1' } }),
  };
}

/** The fields of the only form of a page. */
export function formFields(page: string): Record<string, string> {
  const inputs = page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g);
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]));
}

import { parseCookie, stringifySetCookie } from 'cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isLoopback } from '../../config/loopback.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Visitor } from '../../services/identity/sessions.ts';
import { hashToken } from '../../services/identity/tokens.ts';

/** The page to show after a sign-in, unless the request names another. */
export const startPage = '/app/';

/** `session`: of a signed-in user. `sign_in`: of a browser that was sent to an OpenID provider. */
type CookieKind = 'session' | 'sign_in';

export type Browser = ReturnType<typeof createBrowser>;

/**
 * Cookies of browsers, and the protection of requests that use them. Without a configured address, browsers use the Host header
 * of the request: with TLS, unless it names this host and Bursar itself has no certificate.
 */
export function createBrowser(publicUrl: string | undefined, hasTls: boolean) {
  const publicOrigin = publicUrl === undefined ? undefined : new URL(publicUrl).origin;

  /** Scheme and host of the pages of this server, as browsers see them. */
  const originOf = ({ host }: FastifyRequest) => publicOrigin ?? toOrigin(host, hasTls);

  const isSecure = (request: FastifyRequest) => originOf(request).startsWith('https:');

  /** Browsers accept the prefix only with Secure and without Domain, so that no other host can set the cookie. */
  const cookieName = (request: FastifyRequest, kind: CookieKind) =>
    `${isSecure(request) ? '__Host-' : ''}bursar_${kind}`;

  /** Throws if a page of another site may have caused the request. For forms that need no session. */
  function requireOwnOrigin(request: FastifyRequest): void {
    const expected = originOf(request);
    if (request.headers.origin === expected) return;
    const message = `Requests by cookie must come from a page of ${expected}: send the header "Origin: ${expected}".`;
    throw new BursarError('csrf_refused', message);
  }

  function cookieOf(request: FastifyRequest, kind: CookieKind): string | undefined {
    const { cookie } = request.headers;
    return cookie === undefined ? undefined : parseCookie(cookie)[cookieName(request, kind)];
  }

  return {
    originOf,
    cookieOf,
    requireOwnOrigin,

    /** A lifetime of 0 deletes the cookie. */
    setCookie(reply: FastifyReply, kind: CookieKind, value: string, maxAge: number): void {
      const { request } = reply;
      const attributes = { path: '/', httpOnly: true, sameSite: 'lax', secure: isSecure(request), maxAge } as const;
      // Appended, because a response can set several cookies.
      reply.header('set-cookie', stringifySetCookie({ name: cookieName(request, kind), value, ...attributes }));
    },

    visitorOf: (request: FastifyRequest): Visitor => ({
      address: request.ip,
      userAgent: request.headers['user-agent'] ?? '',
      requestId: request.id,
      session: cookieOf(request, 'session'),
    }),

    /** Like `requireOwnOrigin`, for requests of scripts by session: a header shows that a script of our own has sent it. */
    requireOwnScript(request: FastifyRequest): void {
      requireOwnOrigin(request);
      if (request.headers['x-bursar-request'] === '1') return;
      const message = 'Requests by cookie that change something must send the header "X-Bursar-Request: 1".';
      throw new BursarError('csrf_refused', message);
    },

    /** The same for forms, which cannot send that header: they have the token of their session. */
    requireOwnForm(request: FastifyRequest, session: string, formToken: unknown): void {
      requireOwnOrigin(request);
      if (formToken === formTokenOf(session)) return;
      throw new BursarError('csrf_refused', 'This form belongs to another session. Go back, and send it again.');
    },
  };
}

/** Only a page that was made for this session knows it. */
export const formTokenOf = (session: string) => hashToken(`form ${session}`);

/** Throws if the Host header names no host. */
function toOrigin(hostHeader: string, hasTls: boolean): string {
  const url = URL.parse(`https://${hostHeader}`);
  if (url === null) throw new BursarError('bad_request', 'The header Host does not name a host.');
  const isPlain = !hasTls && isLoopback(url.hostname);
  return `${isPlain ? 'http' : 'https'}://${url.host}`;
}

/**
 * A path of this server, from a request. Everything else, such as `//other.example` or `/\other.example`, becomes the
 * fallback: nobody can use a link to this server to lead a user elsewhere.
 */
export function toLocalPath(text: string | undefined, fallback: string): string {
  const base = 'http://local.invalid';
  const url = text?.startsWith('/') ? URL.parse(text, base) : null;
  if (url === null || url.origin !== base || url.pathname.startsWith('//')) return fallback;
  return url.pathname + url.search + url.hash;
}

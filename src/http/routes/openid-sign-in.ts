import Type from 'typebox';
import type { OpenIdSignIn } from '../../services/identity/openid-sign-in.ts';
import { operation, operations, page } from '../operation.ts';
import { type Browser, startPage, toLocalPath } from '../request/browser.ts';
import type { RateLimits } from '../server/rate-limits.ts';

export interface OpenIdSignInRouteDeps {
  openId: OpenIdSignIn;
  browser: Browser;
  limits: Pick<RateLimits, 'signIn' | 'signInStart'>;
}

/** Sign-in at an OpenID provider: to the issuer and back. */
export const openIdSignInRoutes = ({ openId, browser, limits }: OpenIdSignInRouteDeps) => [
  page({
    route: 'GET /sign-in/start/',
    noStore: true,
    query: {
      issuer: Type.String({ maxLength: 2000 }),
      return_to: Type.Optional(Type.String({ maxLength: 2000 })),
    },
    handler: async (request, reply) => {
      const { issuer, return_to: target } = request.query;
      const returnTo = toLocalPath(target, startPage);
      limits.signInStart(request, reply);
      const { url, secret, maxAgeSeconds } = await openId.begin(issuer, returnTo, browser.originOf(request));
      browser.setCookie(reply, 'sign_in', secret, maxAgeSeconds);
      return reply.redirect(url, 303);
    },
  }),
  page({
    route: 'GET /sign-in/callback/',
    noStore: true,
    // The issuer decides which parameters it adds.
    anyQuery: true,
    handler: async (request, reply) => {
      const { search } = new URL(request.url, 'http://local.invalid');
      const secret = browser.cookieOf(request, 'sign_in');
      browser.setCookie(reply, 'sign_in', '', 0);
      const answer = { search, origin: browser.originOf(request), secret };
      const attempt = () => openId.complete(answer, browser.visitorOf(request));
      const { session, returnTo } = await limits.signIn(request, reply, attempt);
      browser.setCookie(reply, 'session', session.secret, session.maxAgeSeconds);
      return reply.redirect(returnTo, 303);
    },
  }),
  ...operations('account', {
    getSignInOptions: operation({
      route: 'GET /sign-in/options/',
      access: 'public',
      noStore: true,
      summary: 'Read how programs can sign in',
      description: 'The OpenID providers, and the device flow of this server itself.',
      responses: { 200: Type.Ref('SignInOptions') },
      handler: async (request) => ({
        issuers: await openId.describeIssuers(),
        device_authorization_endpoint: `${browser.originOf(request)}/oauth/device/`,
        token_endpoint: `${browser.originOf(request)}/oauth/token/`,
      }),
    }),
  }),
];

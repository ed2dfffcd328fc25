import type { FastifyInstance } from 'fastify';
import Type, { type Static } from 'typebox';
import type { OpenIdSignIn } from '../../services/identity/openid-sign-in.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { type Browser, startPage, toLocalPath } from '../request/browser.ts';
import { addResource } from './resource.ts';

export interface OpenIdSignInRouteDeps {
  openId: OpenIdSignIn;
  browser: Browser;
  limits: Pick<RateLimits, 'signIn' | 'signInStart'>;
}

const StartQuery = Type.Object({
  issuer: Type.String({ maxLength: 2000 }),
  return_to: Type.Optional(Type.String({ maxLength: 2000 })),
});

/** Sign-in at an OpenID provider: to the issuer and back. */
export function openIdSignInRoutes(app: FastifyInstance, { openId, browser, limits }: OpenIdSignInRouteDeps): void {
  addResource(app, '/sign-in/start/', {
    GET: {
      access: null,
      isPage: true,
      schema: { hide: true, querystring: StartQuery },
      handler: async (request, reply) => {
        const { issuer, return_to: target } = request.query as Static<typeof StartQuery>;
        const returnTo = toLocalPath(target, startPage);
        limits.signInStart(request, reply);
        const { url, secret, maxAgeSeconds } = await openId.begin(issuer, returnTo, browser.originOf(request));
        browser.setCookie(reply, 'sign_in', secret, maxAgeSeconds);
        return reply.redirect(url, 303);
      },
    },
  });
  addResource(app, '/sign-in/callback/', {
    GET: {
      access: null,
      isPage: true,
      // The issuer decides which parameters it adds.
      schema: { hide: true, querystring: Type.Object({}, { additionalProperties: true }) },
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
    },
  });
  addResource(app, '/sign-in/options/', {
    GET: {
      access: null,
      schema: {
        ...describeRoute('account', 'getSignInOptions', 'Read how programs can sign in', {
          200: Type.Ref('SignInOptions'),
        }),
        description: 'The OpenID providers, and the device flow of this server itself.',
        security: [],
      },
      handler: async (request) => ({
        issuers: await openId.describeIssuers(),
        device_authorization_endpoint: `${browser.originOf(request)}/oauth/device/`,
        token_endpoint: `${browser.originOf(request)}/oauth/token/`,
      }),
    },
  });
}

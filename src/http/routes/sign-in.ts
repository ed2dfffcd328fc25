import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { nullable } from '../../contract/fields.ts';
import { SignInOptionsSchema } from '../../contract/oauth.ts';
import { BursarError } from '../../domain/errors.ts';
import {
  beginOpenIdSignIn,
  completeOpenIdSignIn,
  describeIssuers,
  findSignOutUrl,
  listSignInIssuers,
  type SignInIssuer,
} from '../../services/identity/openid-sign-in.ts';
import { endSession } from '../../services/identity/sessions.ts';
import { readSignInLink, signInByLink } from '../../services/identity/sign-in-links.ts';
import { operation, operations, page } from '../operation.ts';
import { findSignedIn } from '../request/access.ts';
import { startPage, toLocalPath } from '../request/browser.ts';
import { type Html, html, sendPage } from '../response/page.ts';
import type { RouteContext } from './context.ts';

const returnTo = Type.Optional(Type.String({ maxLength: 2000 }));

const SignedOut = Type.Object(
  { sign_out_url: nullable(Type.String(), 'Address at which the user signs out at the OpenID provider.') },
  { additionalProperties: false, examples: [{ sign_out_url: null }] },
);

/** Pages and requests with which browsers sign in and out. */
export function signInRoutes(context: RouteContext) {
  const { browser, rates } = context;

  async function sendOptions(request: FastifyRequest, reply: FastifyReply, target: string): Promise<FastifyReply> {
    const signedIn = await findSignedIn(request, context);
    if (signedIn === null)
      return sendPage(reply, 200, { title: 'Sign in', body: signInOptions(listSignInIssuers(context), target) });
    const { caller, session, formToken } = signedIn;
    const signOutUrl = await findSignOutUrl(context, session, browser.originOf(request));
    return sendPage(reply, 200, {
      title: `You are signed in as user ${caller.userId}`,
      // The sign-out redirects to the issuer.
      formTargets: signOutUrl === null ? [] : [new URL(signOutUrl).origin],
      body: html`<p><a class="button" href="${target}">Continue</a></p>
<form method="post" action="/sign-out/">
<input type="hidden" name="form_token" value="${formToken}">
<button class="secondary">Sign out</button>
</form>`,
    });
  }

  return [
    page({
      route: 'GET /sign-in/',
      noStore: true,
      query: { code: Type.Optional(Type.String()), return_to: returnTo },
      // Changes nothing: programs that preview links, and browsers that load them in advance, would use up the code.
      handler: async (request, reply) => {
        const { code, return_to: target } = request.query;
        if (code === undefined) return await sendOptions(request, reply, toLocalPath(target, startPage));
        const userId = await rates.signIn(request, reply, () => readSignInLink(context, code));
        return sendPage(reply, 200, {
          title: `Sign in as user ${userId}`,
          body: html`<p>Continue only if you have asked for this link yourself.</p>
<form method="post" action="/sign-in/">
<input type="hidden" name="code" value="${code}">
<input type="hidden" name="return_to" value="${toLocalPath(target, startPage)}">
<button>Sign in</button>
</form>`,
        });
      },
    }),
    page({
      route: 'POST /sign-in/',
      noStore: true,
      form: Type.Object({ code: Type.String(), return_to: returnTo }, { additionalProperties: false }),
      handler: async (request, reply) => {
        browser.requireOwnOrigin(request);
        const { code, return_to: target } = request.body;
        const attempt = () => signInByLink(context, code, browser.visitorOf(request));
        const { secret, maxAgeSeconds } = await rates.signIn(request, reply, attempt);
        browser.setCookie(reply, 'session', secret, maxAgeSeconds);
        return reply.redirect(toLocalPath(target, startPage), 303);
      },
    }),
    page({
      route: 'GET /sign-in/start/',
      noStore: true,
      query: { issuer: Type.String({ maxLength: 2000 }), return_to: returnTo },
      handler: async (request, reply) => {
        const { issuer, return_to: target } = request.query;
        const returnTo = toLocalPath(target, startPage);
        rates.signInStart(request, reply);
        const origin = browser.originOf(request);
        const { url, secret, maxAgeSeconds } = await beginOpenIdSignIn(context, issuer, returnTo, origin);
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
        const attempt = () => completeOpenIdSignIn(context, answer, browser.visitorOf(request));
        const { session, returnTo } = await rates.signIn(request, reply, attempt);
        browser.setCookie(reply, 'session', session.secret, session.maxAgeSeconds);
        return reply.redirect(returnTo, 303);
      },
    }),
    ...operations('account', {
      signOut: operation({
        route: 'POST /sign-out/',
        access: 'public',
        checks: 'session',
        noStore: true,
        summary: 'End the session of this browser',
        description:
          'By cookie only, from a page of this server, with `X-Bursar-Request: 1`. Go on to `sign_out_url`, if there is one.',
        form: Type.Object({
          form_token: Type.Optional(
            Type.String({ description: 'Of a form of this server, which cannot send that header.' }),
          ),
        }),
        responses: { 200: SignedOut },
        handler: async (request, reply) => {
          const { form_token: formToken } = request.body;
          const signedIn = await findSignedIn(request, context);
          if (signedIn === null) throw new BursarError('session_ended', 'There is no session to end. See /sign-in/.');
          const { caller, session } = signedIn;
          if (formToken === undefined) browser.requireOwnScript(request);
          else browser.requireOwnForm(request, session, formToken);
          const signOutUrl = await findSignOutUrl(context, session, browser.originOf(request));
          await endSession(context, caller, caller.sessionId);
          browser.setCookie(reply, 'session', '', 0);
          if (formToken === undefined) return { sign_out_url: signOutUrl };
          return reply.redirect(signOutUrl ?? '/sign-in/', 303);
        },
      }),
      getSignInOptions: operation({
        route: 'GET /sign-in/options/',
        access: 'public',
        noStore: true,
        summary: 'Read how programs can sign in',
        description: 'The OpenID providers, and the device flow of this server itself.',
        responses: { 200: SignInOptionsSchema },
        handler: async (request) => ({
          issuers: await describeIssuers(context),
          device_authorization_endpoint: `${browser.originOf(request)}/oauth/device/`,
          token_endpoint: `${browser.originOf(request)}/oauth/token/`,
        }),
      }),
    }),
  ];
}

function signInOptions(issuers: readonly SignInIssuer[], target: string): Html {
  const buttons = issuers.map(({ name, issuer }) => {
    const query = new URLSearchParams({ issuer, return_to: target });
    return html`<p><a class="button" href="/sign-in/start/?${String(query)}">Sign in with ${name}</a></p>`;
  });
  return html`${buttons}
<p>${issuers.length === 0 ? 'Open' : 'Or open'} the sign-in link that the operators of this server gave you. It works once, for
10 minutes.</p>
<p>Operators create a link on the server:</p>
<p><code>bursar user sign-in-link --user 301330</code></p>`;
}

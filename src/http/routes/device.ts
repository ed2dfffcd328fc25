import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import type { DeviceFlow } from '../../services/identity/device-flow.ts';
import { page } from '../operation.ts';
import type { Authenticate } from '../request/authentication.ts';
import type { Browser } from '../request/browser.ts';
import { findSignedIn, type SignedIn } from '../request/signed-in.ts';
import { html, sendPage } from '../response/page.ts';
import type { RateLimits } from '../server/rate-limits.ts';

export interface DeviceRouteDeps {
  deviceFlow: DeviceFlow;
  browser: Browser;
  authenticate: Authenticate;
  limits: Pick<RateLimits, 'signIn'>;
}

/** The page where a signed-in user confirms the code of a program. */
export function deviceRoutes(deps: DeviceRouteDeps) {
  const { deviceFlow, browser, limits } = deps;

  const redirectToSignIn = (reply: FastifyReply, userCode = '') => {
    const target = userCode === '' ? '/device/' : `/device/?${new URLSearchParams({ user_code: userCode })}`;
    return reply.redirect(`/sign-in/?${new URLSearchParams({ return_to: target })}`, 303);
  };

  /** Shows who asks, so that a user does not confirm the request of somebody else. */
  async function sendQuestion(reply: FastifyReply, { caller, formToken }: SignedIn, userCode: string) {
    const request = await limits.signIn(reply.request, reply, () => deviceFlow.read(caller, userCode));
    return sendPage(reply, 200, {
      title: `Give “${request.clientName}” a token?`,
      body: html`<p>The program will act as you, user ${caller.userId}. Confirm only if you have started it yourself, just now,
and it shows this code.</p>
<dl>
<dt>Code</dt><dd><code>${userCode.toUpperCase()}</code></dd>
<dt>Program</dt><dd>${request.clientName}</dd>
<dt>Address</dt><dd>${request.address}</dd>
<dt>Scopes</dt><dd>${[...request.scopes].join(', ')}</dd>
</dl>
<form method="post" action="/device/">
<input type="hidden" name="user_code" value="${userCode}">
<input type="hidden" name="form_token" value="${formToken}">
<button name="decision" value="approved">Confirm</button>
<button name="decision" value="denied" class="secondary">Refuse</button>
</form>`,
    });
  }

  return [
    page({
      route: 'GET /device/',
      noStore: true,
      query: { user_code: Type.Optional(Type.String({ maxLength: 100 })) },
      handler: async (request, reply) => {
        const { user_code: userCode } = request.query;
        const signedIn = await findSignedIn(request, deps);
        if (signedIn === null) return redirectToSignIn(reply, userCode);
        return userCode === undefined ? sendCodeForm(reply) : await sendQuestion(reply, signedIn, userCode);
      },
    }),
    page({
      route: 'POST /device/',
      noStore: true,
      form: Type.Object(
        {
          user_code: Type.String({ maxLength: 100 }),
          decision: Type.Enum(['approved', 'denied']),
          form_token: Type.String(),
        },
        { additionalProperties: false },
      ),
      handler: async (request, reply) => {
        const { user_code: userCode, decision, form_token: formToken } = request.body;
        const signedIn = await findSignedIn(request, deps);
        if (signedIn === null) return redirectToSignIn(reply, userCode);
        browser.requireOwnForm(request, signedIn.session, formToken);
        const { caller } = signedIn;
        const attempt = () => deviceFlow.decide(caller, { userId: caller.userId, userCode, decision });
        const { clientName } = await limits.signIn(request, reply, attempt);
        return sendPage(reply, 200, {
          title: decision === 'approved' ? 'Confirmed' : 'Refused',
          body:
            decision === 'approved'
              ? html`<p>“${clientName}” now gets a token. You can close this page.</p>`
              : html`<p>“${clientName}” gets no token. You can close this page.</p>`,
        });
      },
    }),
  ];
}

function sendCodeForm(reply: FastifyReply): FastifyReply {
  return sendPage(reply, 200, {
    title: 'Connect a program',
    body: html`<form action="/device/">
<label for="user_code">The code that the program shows</label>
<p><input id="user_code" name="user_code" placeholder="WDJB-MJHT" maxlength="20" autocomplete="off" required autofocus></p>
<button>Continue</button>
</form>`,
  });
}

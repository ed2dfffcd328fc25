import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import * as client from 'openid-client';
import { createCaller } from '../../support/api.ts';
import { type BrowserClient, createBrowserClient, formFields } from '../../support/browser.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import { withDatabase } from '../../support/database.ts';
import { audience, clientSecret, startProvider, type TestProvider } from '../../support/oidc-provider.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { sessionOf } from '../../support/sign-in.ts';

// Sign-in at a real OpenID provider, to the end: code flow in a browser, device flow of a program.

let provider: TestProvider;
/** Its ID tokens have a subject only. */
let plainProvider: TestProvider;
let server: TestServer;
let browser: BrowserClient;

const claims = {
  ada: { user_number: '303001', name: 'Ada', email: 'ada@example.org', groups: ['bursar-operators'] },
  grace: { user_number: '303002', name: 'Grace' },
};

before(async () => {
  provider = await startProvider({ claims: structuredClone(claims) });
  plainProvider = await startProvider({ claims: { linus: { name: 'Linus' } }, claimsInUserInfo: true });
  const oidc = {
    ...{ issuer: provider.issuer, name: 'Test <University>', audience, clientId: 'bursar', clientSecret },
    ...{ deviceClientId: 'bursar-cli', claims: { user: 'user_number', groups: 'groups' } },
    roles: { 'bursar-operators': 'operator' },
  };
  const plain = { issuer: plainProvider.issuer, audience, clientId: 'bursar', clientSecret };
  const config = { ...shippedConfig(), oidc: [oidc, plain] };
  server = await startServer({ config: { ...config, limits: { failedSignIns: 1000 } } });
  for (const each of [provider, plainProvider])
    each.setRedirectUris([`${server.url}/sign-in/callback/`], [`${server.url}/sign-in/`]);
});
after(async () => {
  await server.dispose();
  await Promise.all([provider.stop(), plainProvider.stop()]);
});
beforeEach(() => {
  browser = createBrowserClient(server.url);
});

const startPath = (returnTo = '/me/') =>
  `/sign-in/start/?${new URLSearchParams({ issuer: provider.issuer, return_to: returnTo })}`;

/** Goes to the issuer, and returns the address at which it sends the browser back. */
async function visitIssuer(account: string, from = browser): Promise<string> {
  const { status, location, text } = await from.get(startPath());
  assert.equal(status, 303, text);
  return await provider.signIn(location ?? '', account);
}

describe('the code flow', () => {
  test('starts a session of the user whom the claims name', async () => {
    const page = await browser.get('/sign-in/?return_to=/me/');
    assert.match(page.text, /Sign in with Test &lt;University&gt;/);
    const [, link = ''] = /href="(\/sign-in\/start\/[^"]*)"/.exec(page.text) ?? [];
    const start = await browser.get(link.replaceAll('&amp;', '&'));
    const authorization = new URL(start.location ?? '');
    assert.equal(authorization.origin, provider.issuer);
    assert.equal(authorization.searchParams.get('code_challenge_method'), 'S256');
    for (const name of ['state', 'nonce', 'code_challenge'])
      assert.match(authorization.searchParams.get(name) ?? '', /^[\w-]{43}$/, name);
    const { value: _, ...attributes } = browser.cookies.get('bursar_sign_in') ?? { name: '', value: '' };
    const common = { httpOnly: true, sameSite: 'lax', path: '/', maxAge: 600 };
    assert.deepEqual({ ...attributes }, { name: 'bursar_sign_in', ...common });

    const back = await provider.signIn(start.location ?? '', 'ada');
    const done = await browser.get(back);
    assert.deepEqual([done.status, done.location], [303, '/me/'], done.text);
    assert.deepEqual([...browser.cookies.keys()], ['bursar_session']);
    const me = JSON.parse((await browser.get('/me/')).text);
    assert.deepEqual([me.user, me.name, me.mail, me.roles], ['303001', 'Ada', 'ada@example.org', ['operator']]);
    const [session] = JSON.parse((await browser.get('/me/sessions/')).text);
    assert.equal(session.issuer, provider.issuer);
  });

  test('reads claims from the userinfo endpoint too, and works with several issuers', async () => {
    const page = await browser.get('/sign-in/');
    const { host } = new URL(plainProvider.issuer);
    assert.ok(page.text.includes(`Sign in with ${host}`), page.text);
    const start = await browser.get(`/sign-in/start/?issuer=${encodeURIComponent(plainProvider.issuer)}`);
    const done = await browser.get(await plainProvider.signIn(start.location ?? '', 'linus'));
    assert.equal(done.status, 303, done.text);
    const me = JSON.parse((await browser.get('/me/')).text);
    assert.deepEqual([me.name, me.roles], ['Linus', ['user']]);
    assert.ok(plainProvider.requests.includes('/me'), 'the userinfo endpoint');
  });

  test('gives a new session to a browser that has one', async () => {
    assert.equal((await browser.get(await visitIssuer('grace'))).status, 303);
    const first = sessionOf(browser);
    assert.equal((await browser.get(await visitIssuer('ada'))).status, 303);
    const attacker = createBrowserClient(server.url);
    attacker.cookies.set('bursar_session', { name: 'bursar_session', value: first });
    assert.equal((await attacker.get('/me/')).status, 401);
  });

  test('ends in another browser than the one in which it began with an error', async () => {
    const back = await visitIssuer('ada');
    // An attacker could otherwise sign a victim in as the attacker.
    const victim = createBrowserClient(server.url);
    const withoutCookie = await victim.get(back);
    assert.equal(withoutCookie.status, 401);
    assert.match(withoutCookie.text, /was not started in this browser/);
    await victim.get(startPath());
    const otherAttempt = await victim.get(back);
    assert.equal(otherAttempt.status, 401);
    assert.match(otherAttempt.text, /does not belong to this sign-in/);
    assert.equal(victim.cookies.size, 0);
  });

  test('accepts an answer once', async () => {
    const attempt = createBrowserClient(server.url);
    const back = await visitIssuer('ada', attempt);
    const [cookie] = attempt.cookies.values();
    assert.ok(cookie);
    assert.equal((await attempt.get(back)).status, 303);
    const replayed = createBrowserClient(server.url);
    replayed.cookies.set(cookie.name, cookie);
    assert.equal((await replayed.get(back)).status, 401);
    assert.equal(replayed.cookies.size, 0);
  });

  test('refuses a wrong state, a code of another attempt, a refusal of the user, and an answer without a code', async () => {
    const change = async (edit: (answer: URLSearchParams) => void) => {
      const answer = new URL(await visitIssuer('ada'));
      edit(answer.searchParams);
      return await browser.get(answer.href);
    };
    const other = new URL(await visitIssuer('grace', createBrowserClient(server.url))).searchParams;
    const cases: [RegExp, (answer: URLSearchParams) => void][] = [
      [/does not belong to this sign-in/, (answer) => answer.set('state', 'x')],
      [/does not belong to this sign-in/, (answer) => answer.delete('state')],
      [/does not belong to this sign-in/, (answer) => answer.delete('code')],
      [/does not belong to this sign-in/, (answer) => answer.set('iss', 'https://evil.example')],
      [/has refused the sign-in \(invalid_grant\)/, (answer) => answer.set('code', other.get('code') ?? '')],
      [/has refused the sign-in \(access_denied\)/, (answer) => answer.set('error', 'access_denied')],
      [/has refused the sign-in\./, (answer) => answer.set('error', '<script>alert(1)</script>')],
    ];
    for (const [message, edit] of cases) {
      const { status, text, headers } = await change(edit);
      assert.equal(status, 401, text);
      assert.match(text, message);
      assert.match(headers.get('content-type') ?? '', /^text\/html/);
      assert.doesNotMatch(text, /<script>/);
    }
    assert.equal(browser.cookies.size, 0);
  });

  test('expires', async () => {
    const back = await visitIssuer('ada');
    await withDatabase(server.data, (db) => db.updateTable('signInAttempts').set({ expiresAt: 1 }).execute());
    assert.equal((await browser.get(back)).status, 401);
  });

  test('leads to a path of this server, from a configured issuer', async () => {
    const start = await browser.get(startPath('//evil.example'));
    const done = await browser.get(await provider.signIn(start.location ?? '', 'ada'));
    assert.equal(done.location, '/app/');
    const unknown = await browser.get('/sign-in/start/?issuer=https%3A%2F%2Fevil.example');
    assert.deepEqual([unknown.status, unknown.location], [401, null]);
  });

  test('shows a page with 503 while the issuer is away', async () => {
    const back = await visitIssuer('ada');
    await provider.stop();
    try {
      const { status, text, headers } = await browser.get(back);
      assert.equal(status, 503, text);
      assert.match(text, /cannot be used at the moment/);
      assert.match(headers.get('retry-after') ?? '', /^\d+$/);
    } finally {
      await provider.start();
    }
    assert.equal((await browser.get(await visitIssuer('ada'))).status, 303);
  });

  test('starts no session of a disabled user', async () => {
    assert.equal((await browser.get(await visitIssuer('grace'))).status, 303);
    const admin = createCaller(server.url, server.adminToken);
    const json = { 'content-type': 'application/json' };
    const change = (action: string) =>
      admin.send('POST', `/admin/users/303002/${action}/`, json, JSON.stringify({ reason: 'test of the sign-in' }));
    assert.equal((await change('disable')).status, 200);
    assert.equal((await browser.get('/me/')).status, 403);
    const refused = await createBrowserClient(server.url);
    assert.equal((await refused.get(await visitIssuer('grace', refused))).status, 403);
    assert.equal(refused.cookies.size, 0);
    assert.equal((await change('enable')).status, 200);
  });
});

describe('the sign-out', () => {
  test('of a form leads on to the issuer, and back', async () => {
    await browser.get(await visitIssuer('ada'));
    const page = await browser.get('/sign-in/');
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.ok(policy.includes(`form-action 'self' ${provider.issuer};`), policy);
    const out = await browser.submit('/sign-out/', formFields(page.text));
    assert.equal(out.status, 303);
    const url = new URL(out.location ?? '');
    assert.equal(url.origin + url.pathname, `${provider.issuer}/session/end`);
    assert.equal(url.searchParams.get('post_logout_redirect_uri'), `${server.url}/sign-in/`);
    assert.match(url.searchParams.get('id_token_hint') ?? '', /^eyJ/);
    assert.equal(await provider.signIn(url.href, 'ada'), `${server.url}/sign-in/`);
    assert.equal((await browser.get('/me/')).status, 401);
  });

  test('of a script says where to sign out at the issuer', async () => {
    await browser.get(await visitIssuer('ada'));
    const { status, text } = await browser.script('POST', '/sign-out/');
    assert.equal(status, 200);
    assert.ok(JSON.parse(text).sign_out_url.startsWith(`${provider.issuer}/session/end?`));
    const tokens = await withDatabase(server.data, (db) =>
      db
        .selectFrom('sessions')
        .select('id')
        .where('revokedAt', 'is not', null)
        .where('idToken', 'is not', null)
        .execute(),
    );
    assert.deepEqual(tokens, [], 'ID tokens of ended sessions');
  });
});

test('a program gets a token of the issuer by its device flow, and uses it here', async () => {
  const { callerFor } = await loadOpenApiContract(server);
  interface Options {
    issuers: {
      name: string;
      issuer: string;
      client_id: string;
      scope: string;
      device_authorization_endpoint: string;
    }[];
  }
  const { body } = await callerFor(null).get<Options>('/sign-in/options/');
  const [issuer] = body.issuers;
  assert.ok(issuer);
  assert.equal(issuer.device_authorization_endpoint, `${provider.issuer}/device/auth`);
  const options = { execute: [client.allowInsecureRequests] };
  const url = new URL(issuer.issuer);
  const configuration = await client.discovery(url, issuer.client_id, undefined, client.None(), options);
  const response = await client.initiateDeviceAuthorization(configuration, { scope: issuer.scope });
  await provider.signIn(response.verification_uri_complete ?? '', 'ada');
  const token = await client.pollDeviceAuthorizationGrant(configuration, { ...response, interval: 0.01 });
  const { body: me } = await createCaller(server.url, token.access_token).get<{ user: string }>('/me/');
  assert.equal(me.user, '303001');
});

test('no secret of a sign-in is logged', () => {
  assert.doesNotMatch(server.log(), /bursar_(session|attempt)_|eyJ|code=|state=/);
});

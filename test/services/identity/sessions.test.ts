import assert from 'node:assert/strict';
import { request as sendRequest } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { hashToken } from '../../../src/services/identity/tokens.ts';
import { createCaller } from '../../support/api.ts';
import { type BrowserResponse, createBrowserClient, formFields } from '../../support/browser.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import { withDatabase } from '../../support/database.ts';
import { firstUsers, startServer, type TestServer } from '../../support/server.ts';
import { createLink, sessionOf, signIn } from '../../support/sign-in.ts';
import { until } from '../../support/until.ts';

// Sign-in links, sessions of browsers, and requests by cookie.

interface Session {
  id: number;
  address: string;
  user_agent: string;
  issuer: null;
  current: boolean;
}

const { user } = firstUsers;
let server: TestServer;

before(async () => {
  server = await startServer();
});
after(() => server.dispose());

const codeOf = (response: BrowserResponse) => `${response.status} ${JSON.parse(response.text).code}`;
const listSessions = async (browser: { get(path: string): Promise<BrowserResponse> }) =>
  JSON.parse((await browser.get('/me/sessions/')).text) as Session[];
const listActs = async () => {
  const records = await withDatabase(server.data, (db) => db.selectFrom('audit').selectAll().orderBy('id').execute());
  return records.map(({ actor, action, subject, sessionId: id }) => `${actor} ${action} ${subject} by session ${id}`);
};

describe('a sign-in link', () => {
  test('shows a page that changes nothing and has no scripts, and starts a session once', async () => {
    const link = await createLink(server, user);
    const browser = createBrowserClient(server.url);
    const pages = [await browser.get(link), await browser.get(link)];
    for (const { status, text, headers } of pages) {
      assert.equal(status, 200);
      assert.match(text, /Sign in as user 301330/);
      assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none'; style-src 'sha256-[\w+/=]+';/);
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal(headers.get('referrer-policy'), 'strict-origin');
    }
    assert.equal(browser.cookies.size, 0);
    const fields = formFields(pages[0]?.text ?? '');
    const response = await browser.submit('/sign-in/', fields);
    assert.deepEqual([response.status, response.location], [303, '/app/']);
    const me = await browser.get('/me/');
    assert.equal(JSON.parse(me.text).user, user);
    const again = await browser.submit('/sign-in/', fields);
    assert.equal(again.status, 401);
    assert.match(again.text, /has been used, has expired/);
    assert.equal((await browser.get(link)).status, 401);
  });

  test('used by concurrent requests starts one session', async () => {
    const [, code = ''] = (await createLink(server, user)).split('code=');
    const clients = Array.from({ length: 8 }, () => createBrowserClient(server.url));
    const responses = await Promise.all(clients.map((client) => client.submit('/sign-in/', { code })));
    const statuses = responses.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [303, ...Array(7).fill(401)]);
  });

  test('expires', async () => {
    const link = await createLink(server, user);
    const hash = hashToken(link.split('code=')[1] ?? '');
    await withDatabase(server.data, (db) =>
      db.updateTable('signInCodes').set({ expiresAt: Date.now() }).where('hash', '=', hash).execute(),
    );
    const browser = createBrowserClient(server.url);
    assert.equal((await browser.get(link)).status, 401);
    assert.equal((await browser.submit('/sign-in/', { code: link.split('code=')[1] ?? '' })).status, 401);
    await until(
      'the refusal is recorded',
      async () =>
        (await listActs()).some((record) => record.startsWith('anonymous access.refused POST /sign-in/')) || undefined,
    );
  });

  test('leads to a path of this server only', async () => {
    const targets = [
      ['/me/?a=b#c', '/me/?a=b#c'],
      ...[
        ...['//evil.example', '/\\evil.example', '/\t/evil.example', '/.//evil.example', 'https://evil.example'],
        ...['evil.example', 'javascript:alert(1)', '\\\\evil.example', '///evil.example', '/%5cevil/..//evil.example'],
      ].map((target) => [target, '/app/']),
    ];
    for (const [target = '', expected] of targets) {
      const [, code = ''] = (await createLink(server, user)).split('code=');
      const response = await createBrowserClient(server.url).submit('/sign-in/', { code, return_to: target });
      assert.deepEqual([response.status, response.location], [303, expected], target);
    }
  });

  test('of another site is refused: nobody is signed in without knowing', async () => {
    const [, code = ''] = (await createLink(server, user)).split('code=');
    const browser = createBrowserClient(server.url);
    const type = 'application/x-www-form-urlencoded';
    for (const headers of [{}, { origin: 'https://evil.example' }, { origin: 'null' }]) {
      const options = { method: 'POST', headers: { 'content-type': type, ...headers }, body: `code=${code}` };
      const response = await browser.request('/sign-in/', options);
      assert.equal(response.status, 403);
      assert.match(response.headers.get('content-type') ?? '', /^text\/html/);
    }
    assert.equal((await browser.submit('/sign-in/', { code })).status, 303);
  });

  test('of a disabled user starts no session, and sessions of disabled users end', async () => {
    await server.token('302801');
    const browser = await signIn(server, '302801');
    const link = await createLink(server, '302801');
    const admin = createCaller(server.url, server.adminToken);
    const json = { 'content-type': 'application/json' };
    const body = JSON.stringify({ reason: 'left the institute' });
    assert.equal((await admin.send('POST', '/admin/users/302801/disable/', json, body)).status, 200);
    assert.equal(codeOf(await browser.get('/me/')), '403 user_disabled');
    // Others can still sign in with this browser.
    assert.equal((await browser.get('/sign-in/')).status, 200);
    const [, code = ''] = link.split('code=');
    assert.equal((await createBrowserClient(server.url).submit('/sign-in/', { code })).status, 403);
    await assert.rejects(createLink(server, '302801'), { code: 'user_disabled' });
    await assert.rejects(createLink(server, '309999'), { code: 'user_unknown' });
  });
});

describe('the cookie of a session', () => {
  test('is HttpOnly and SameSite=Lax, and Secure unless the server is reached on its own host', async () => {
    const browser = await signIn(server, user);
    const { value, ...attributes } = browser.cookies.get('bursar_session') ?? { name: '', value: '' };
    assert.match(value ?? '', /^bursar_session_[\w-]{43}$/);
    const common = { httpOnly: true, sameSite: 'lax', path: '/', maxAge: 7 * 86_400 };
    assert.deepEqual({ ...attributes }, { name: 'bursar_session', ...common });
    const [, code = ''] = (await createLink(server, user)).split('code=');
    // The Host header of a reverse proxy with TLS.
    const origin = 'https://bursar.example.org';
    const { status, cookies } = await submitWithHost('bursar.example.org', origin, code);
    assert.equal(status, 303);
    assert.match(cookies[0] ?? '', /^__Host-bursar_session=bursar_session_[\w-]{43};/);
    for (const attribute of ['Path=/', 'HttpOnly', 'Secure', 'SameSite=Lax'])
      assert.ok(cookies[0]?.split('; ').includes(attribute), attribute);
    assert.ok(!cookies[0]?.includes('Domain'));
  });

  /** fetch sends no Host header of one's own. */
  async function submitWithHost(host: string, origin: string, code: string) {
    const headers = { host, origin, 'content-type': 'application/x-www-form-urlencoded' };
    return await new Promise<{ status: number; cookies: string[] }>((resolve, reject) => {
      const sent = sendRequest(`${server.url}/sign-in/`, { method: 'POST', headers }, (response) => {
        response.resume();
        resolve({ status: response.statusCode ?? 0, cookies: response.headers['set-cookie'] ?? [] });
      });
      sent.on('error', reject).end(`code=${code}`);
    });
  }

  test('is new after every sign-in, and the one before is worth nothing', async () => {
    const browser = await signIn(server, user);
    const first = sessionOf(browser);
    await signIn(server, firstUsers.admin, browser);
    const second = sessionOf(browser);
    assert.notEqual(first, second);
    assert.equal(JSON.parse((await browser.get('/me/')).text).user, firstUsers.admin);
    browser.cookies.set('bursar_session', { name: 'bursar_session', value: first });
    assert.equal(codeOf(await browser.get('/me/')), '401 session_ended');
  });

  test('that an attacker has chosen does not become a session', async () => {
    const browser = createBrowserClient(server.url);
    const chosen = `bursar_session_${'A'.repeat(43)}`;
    browser.cookies.set('bursar_session', { name: 'bursar_session', value: chosen });
    await signIn(server, user, browser);
    assert.notEqual(sessionOf(browser), chosen);
    const attacker = createBrowserClient(server.url);
    attacker.cookies.set('bursar_session', { name: 'bursar_session', value: chosen });
    assert.equal(codeOf(await attacker.get('/me/')), '401 session_ended');
  });

  test('does not count beside a token', async () => {
    const browser = await signIn(server, firstUsers.admin);
    const headers = { authorization: `Bearer ${server.userToken}` };
    assert.equal(JSON.parse((await browser.request('/me/', { headers })).text).user, user);
    const wrong = await browser.request('/me/', { headers: { authorization: 'Bearer bursar_wrong' } });
    assert.equal(codeOf(wrong), '401 token_invalid');
  });
});

describe('a session', () => {
  test('reads like a token, and has all scopes of its user', async () => {
    const browser = await signIn(server, firstUsers.admin);
    for (const path of ['/jobs/', '/quotas/', '/admin/users/', '/hpc/'])
      assert.equal((await browser.get(path)).status, 200, path);
    assert.equal((await (await signIn(server, user)).get('/admin/users/')).status, 403);
  });

  test('is listed, marked if it is that of the request, and can be ended', async () => {
    await server.token('302802');
    const contract = await loadOpenApiContract(server);
    const [one, two, three] = [
      await signIn(server, '302802'),
      await signIn(server, '302802'),
      await signIn(server, '302802'),
    ];
    const list = await listSessions(one);
    assert.deepEqual(
      list.map(({ current, address, issuer }) => ({ current, address, issuer })),
      [true, false, false].map((current) => ({ current, address: '127.0.0.1', issuer: null })),
    );
    const stranger = contract.callerFor(server.userToken);
    assert.equal((await stranger.send('DELETE', `/me/sessions/${list[1]?.id}/`)).status, 404);
    assert.equal((await one.script('DELETE', `/me/sessions/${list[1]?.id}/`)).status, 200);
    assert.equal(codeOf(await two.get('/me/')), '401 session_ended');
    assert.equal((await three.get('/me/')).status, 200);
    assert.equal((await one.script('DELETE', '/me/sessions/')).status, 200);
    assert.equal(codeOf(await three.get('/me/')), '401 session_ended');
    assert.equal((await listSessions(one)).length, 1);
    const acts = await listActs();
    assert.ok(acts.includes(`302802 session.create 302802/${list[0]?.id} by session ${list[0]?.id}`), acts.join('\n'));
    assert.ok(acts.includes(`302802 session.revoke 302802/${list[2]?.id} by session ${list[0]?.id}`), acts.join('\n'));
    const admin = contract.callerFor(server.adminToken);
    assert.equal((await admin.get<Session[]>('/admin/users/302802/sessions/')).body.length, 1);
    assert.equal((await admin.send('DELETE', '/admin/users/302802/sessions/')).status, 200);
    assert.equal(codeOf(await one.get('/me/')), '401 session_ended');
  });

  test('that is ended ends its event streams', async () => {
    const browser = await signIn(server, user);
    const headers = { cookie: `bursar_session=${sessionOf(browser)}`, accept: 'text/event-stream' };
    const stream = await fetch(`${server.url}/events/`, { headers });
    assert.equal(stream.status, 200);
    assert.equal((await browser.script('POST', '/sign-out/')).status, 200);
    await stream.text();
  });

  test('can create tokens', async () => {
    const browser = await signIn(server, user);
    const headers = { origin: server.url, 'x-bursar-request': '1', 'content-type': 'application/json' };
    const body = JSON.stringify({ name: 'by session', scopes: ['jobs:read'] });
    const response = await browser.request('/me/tokens/', { method: 'POST', headers, body });
    assert.equal(response.status, 201, response.text);
  });

  test('ends with the sign-out, by a script and by a form', async () => {
    const one = await signIn(server, user);
    const ended = sessionOf(one);
    const response = await one.script('POST', '/sign-out/');
    assert.deepEqual([response.status, response.text], [200, '{"sign_out_url":null}']);
    assert.equal(one.cookies.size, 0);
    one.cookies.set('bursar_session', { name: 'bursar_session', value: ended });
    assert.equal(codeOf(await one.get('/me/')), '401 session_ended');
    assert.equal(codeOf(await one.script('POST', '/sign-out/')), '401 session_ended');

    const two = await signIn(server, user);
    const page = await two.get('/sign-in/');
    assert.match(page.text, /You are signed in as user 301330/);
    const other = await signIn(server, user);
    const foreign = await other.submit('/sign-out/', formFields(page.text));
    assert.equal(codeOf(foreign), '403 csrf_refused');
    const out = await two.submit('/sign-out/', formFields(page.text));
    assert.deepEqual([out.status, out.location], [303, '/sign-in/']);
    assert.match((await two.get('/sign-in/')).text, /Open the sign-in link/);
  });
});

test('a request by cookie that changes something must come from a page of this server', async () => {
  const browser = await signIn(server, user);
  const send = (headers: Record<string, string>) =>
    browser.request('/me/sessions/', { method: 'DELETE', headers: { ...headers } });
  const own = { origin: server.url };
  const header = { 'x-bursar-request': '1' };
  for (const headers of [
    {},
    own,
    header,
    { ...header, origin: 'null' },
    { ...header, origin: 'https://evil.example' },
    { ...header, origin: server.url.replace('http:', 'https:') },
    { ...header, origin: `${server.url}0` },
    { ...own, 'x-bursar-request': '0' },
  ])
    assert.equal(codeOf(await send(headers)), '403 csrf_refused', JSON.stringify(headers));
  assert.equal((await send({ ...own, ...header })).status, 200);
  // A token is not sent by the browser itself.
  const { status } = await createCaller(server.url, server.userToken).send('DELETE', '/me/sessions/');
  assert.equal(status, 200);
});

test('no secret of a sign-in is logged', () => {
  assert.doesNotMatch(server.log(), /bursar_(session|code)_/);
});

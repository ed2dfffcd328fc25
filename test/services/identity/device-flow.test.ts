import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as client from 'openid-client';
import { allScopes, userScopes } from '../../../src/domain/identity/policy.ts';
import { commandLineActor } from '../../../src/services/identity/actor.ts';
import {
  type DeviceDeps,
  decideDeviceRequest,
  pollDeviceRequest,
  startDeviceRequest,
} from '../../../src/services/identity/device-flow.ts';
import { createCaller } from '../../support/api.ts';
import { createBrowserClient, formFields } from '../../support/browser.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { signIn } from '../../support/sign-in.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { storeToken } from '../../support/tokens.ts';
import { until } from '../../support/until.ts';

// Bursar's own device authorization grant, with an OAuth client that knows nothing of Bursar.

const user = '302901';

describe('a program without a browser', () => {
  let server: TestServer;
  let configuration: client.Configuration;

  before(async () => {
    server = await startServer();
    await server.token(user);
    const options = { algorithm: 'oauth2' as const, execute: [client.allowInsecureRequests] };
    configuration = await client.discovery(new URL(server.url), 'laptop of <me>', undefined, client.None(), options);
  });
  after(() => server.dispose());

  const start = (scope?: string) => client.initiateDeviceAuthorization(configuration, scope ? { scope } : {});
  /** The answer is there already, so the client need not wait before its first request. */
  const poll = (response: client.DeviceAuthorizationResponse) =>
    client.pollDeviceAuthorizationGrant(configuration, { ...response, interval: 0.01 });

  test('gets a token of the user who confirms its code in a signed-in browser', async () => {
    const response = await start('jobs:read quotas:read');
    assert.match(response.user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    assert.equal(response.verification_uri, `${server.url}/device/`);
    const browser = await signIn(server, user);
    const page = await browser.get(response.verification_uri_complete ?? '');
    for (const text of ['laptop of &lt;me&gt;', '127.0.0.1', 'jobs:read, quotas:read', response.user_code, user])
      assert.ok(page.text.includes(text), text);
    const confirmed = await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
    assert.equal(confirmed.status, 200, confirmed.text);

    const token = await poll(response);
    assert.deepEqual(
      [token.token_type, token.scope, token.expires_in],
      ['bearer', 'jobs:read quotas:read', 90 * 86_400],
    );
    const caller = createCaller(server.url, token.access_token);
    const { body } = await caller.get<{ user: string; scopes: string[] }>('/me/');
    assert.deepEqual([body.user, body.scopes], [user, ['jobs:read', 'quotas:read']]);
    const { body: tokens } = await caller.get<{ name: string }[]>('/me/tokens/');
    assert.ok(tokens.some(({ name }) => name === 'laptop of <me>'));
    await assert.rejects(poll(response), { error: 'invalid_grant' });
    const again = await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
    assert.equal(again.status, 401);
  });

  test('gets no scope that the role of the user does not allow, and the page shows none', async () => {
    const response = await start('jobs:read admin:read admin:write');
    const browser = await signIn(server, user);
    const page = await browser.get(response.verification_uri_complete ?? '');
    assert.ok(page.text.includes('<dd>jobs:read</dd>'), page.text);
    await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
    assert.equal((await poll(response)).scope, 'jobs:read');
  });

  test('gets no token if the user refuses', async () => {
    const response = await start();
    const browser = await signIn(server, user);
    const code = response.user_code.toLowerCase().replace('-', ' ');
    const page = await browser.get(`/device/?user_code=${encodeURIComponent(code)}`);
    for (const scope of userScopes) assert.ok(page.text.includes(scope), scope);
    const refused = await browser.submit('/device/', { ...formFields(page.text), decision: 'denied' });
    assert.equal(refused.status, 200);
    await assert.rejects(poll(response), { error: 'access_denied' });
  });

  test('gets a token by "bursar user confirm"', async () => {
    const response = await start();
    const { stdout } = await server.bursar('user', 'confirm', response.user_code, '--user', user, '--actor', 'otto');
    assert.match(stdout, /"laptop of <me>" at 127\.0\.0\.1 gets a token of user 302901/);
    assert.match((await poll(response)).access_token, /^bursar_[\w-]{43}$/);
  });

  test('cannot be confirmed by a page of another site, or without a session', async () => {
    const response = await start();
    const anonymous = createBrowserClient(server.url);
    const redirected = await anonymous.get(response.verification_uri_complete ?? '');
    const target = `/device/?user_code=${response.user_code}`;
    assert.deepEqual(
      [redirected.status, redirected.location],
      [303, `/sign-in/?${new URLSearchParams({ return_to: target })}`],
    );
    const browser = await signIn(server, user);
    const page = await browser.get(target);
    const fields = { ...formFields(page.text), decision: 'approved' };
    for (const origin of ['null', 'https://evil.example'])
      assert.equal((await browser.submit('/device/', fields, { origin })).status, 403, origin);
    const own = formFields((await (await signIn(server, user)).get(target)).text);
    const foreignToken = await browser.submit('/device/', { ...fields, form_token: own.form_token ?? '' });
    assert.equal(foreignToken.status, 403);
    await assert.rejects(
      client.genericGrantRequest(configuration, deviceGrant, { device_code: response.device_code }),
      {
        error: 'authorization_pending',
      },
    );
  });

  const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';

  test('is told what is wrong in the form of OAuth', async () => {
    await assert.rejects(start('jobs:read everything'), { error: 'invalid_scope' });
    const cases = [
      ['/oauth/token/', {}, 'invalid_request'],
      ['/oauth/token/', { grant_type: 'password' }, 'unsupported_grant_type'],
      ['/oauth/token/', { grant_type: deviceGrant }, 'invalid_request'],
      ['/oauth/token/', { grant_type: deviceGrant, device_code: 'bursar_device_unknown' }, 'invalid_grant'],
      ['/oauth/device/', { client_id: 'x'.repeat(101) }, 'invalid_request'],
    ] as const;
    for (const [path, fields, error] of cases) {
      const response = await createBrowserClient(server.url).submit(path, fields);
      assert.deepEqual([response.status, JSON.parse(response.text).error], [400, error]);
      assert.equal(response.headers.get('content-type'), 'application/json');
      assert.equal(response.headers.get('cache-control'), 'no-store');
    }
    const wrong = await (await signIn(server, user)).get('/device/?user_code=BBBB-BBBB');
    assert.equal(wrong.status, 401);
    assert.match(wrong.text, /No program waits for this code/);
    const admin = createCaller(server.url, server.adminToken);
    await until('the refusal is recorded, with the user', async () => {
      const { body } = await admin.get<{ subject: string }[]>(`/admin/audit/?action=access.refused&actor=${user}`);
      return body.some(({ subject }) => subject === 'GET /device/') || undefined;
    });
  });
});

describe('the device flow', () => {
  let database: TestDatabase;
  let deps: DeviceDeps;
  let now = 1_800_000_000_000;
  const from = { address: '192.0.2.1', requestId: 'r' };
  const actor = { ...commandLineActor('otto'), scopes: allScopes };

  before(async () => {
    database = await openTestDatabase([user], 1, 1);
    deps = { db: database.db, tokens: { defaultDays: 90, maxDays: 30 }, now: () => now };
  });
  after(() => database.close());

  const start = (scopes = userScopes) =>
    startDeviceRequest(deps, { clientName: 'laptop', scopes, address: '192.0.2.1' });
  const poll = async (deviceCode: string) => {
    const result = await pollDeviceRequest(deps, deviceCode, from);
    return result.kind === 'error' ? result.error : result.kind;
  };

  test('slows down a program that polls too often', async () => {
    const { deviceCode } = await start();
    assert.equal(await poll(deviceCode), 'authorization_pending');
    now += 4999;
    assert.equal(await poll(deviceCode), 'slow_down');
    now += 9999;
    assert.equal(await poll(deviceCode), 'slow_down');
    now += 15_000;
    assert.equal(await poll(deviceCode), 'authorization_pending');
  });

  test('ends after ten minutes', async () => {
    const { deviceCode, userCode } = await start();
    now += 600_000;
    assert.equal(await poll(deviceCode), 'expired_token');
    const decision = { userId: user, userCode, decision: 'approved' } as const;
    await assert.rejects(decideDeviceRequest(deps, actor, decision), { code: 'sign_in_failed' });
  });

  test('gives one token, with no more scopes than the session that confirms has', async () => {
    const { deviceCode, userCode } = await start(allScopes);
    await decideDeviceRequest(deps, { ...actor, scopes: userScopes }, { userId: user, userCode, decision: 'approved' });
    const results = await Promise.all(Array.from({ length: 5 }, () => pollDeviceRequest(deps, deviceCode, from)));
    const [token, ...others] = results.filter(({ kind }) => kind === 'token');
    assert.equal(others.length, 0);
    assert.ok(token?.kind === 'token');
    assert.deepEqual([token.scopes, token.expiresInSeconds], [userScopes, 30 * 86_400]);
    for (const result of results) if (result.kind === 'error') assert.equal(result.error, 'invalid_grant');
  });

  test('gives no token to a user who has as many valid ones as are allowed', async () => {
    const { deviceCode, userCode } = await start();
    await decideDeviceRequest(deps, actor, { userId: user, userCode, decision: 'approved' });
    const request = { userId: user, name: 'another', scopes: userScopes, expiresAt: now + 86_400_000 };
    for (let count = 0; count < 100; count += 1) await storeToken(database.db, request, now);
    const result = await pollDeviceRequest(deps, deviceCode, from);
    assert.ok(result.kind === 'error');
    assert.equal(result.error, 'access_denied');
    assert.match(result.description, /You have 100 valid tokens\. Revoke one/);
    assert.equal(await poll(deviceCode), 'invalid_grant');
    now += 86_400_000;
  });

  test('counts the first of two decisions', async () => {
    const { userCode } = await start();
    const decide = (decision: 'approved' | 'denied') =>
      decideDeviceRequest(deps, actor, { userId: user, userCode, decision });
    const results = await Promise.allSettled([decide('approved'), decide('denied')]);
    assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  });
});

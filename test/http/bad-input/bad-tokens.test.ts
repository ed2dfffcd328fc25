import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { withDatabase } from '../../support/database.ts';
import { assertCleanLog, readLogLines } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

const submission: HeaderLine[] = [
  ['content-disposition', 'attachment; filename=job.zip'],
  ['payload', '{"command": "echo hello"}'],
];
const unknownToken = 'bursar_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

let server: TestServer;
let state: StateSnapshot;
const tokens = { expired: '', revoked: '', unprivileged: '' };

before(async () => {
  // Many requests with bad tokens from one address.
  server = await startServer({ config: { ...shippedConfig(), limits: { failedSignIns: 10_000 } } });
  tokens.expired = await server.token('301330', { validMs: 60_000, name: 'to expire' });
  tokens.revoked = await server.token('301330', { name: 'to revoke' });
  tokens.unprivileged = await server.token('300001', { name: 'not for administration' });
  await expireToken('to expire');
  const { stdout } = await server.bursar('token', 'list', '--json');
  const listed = JSON.parse(stdout) as { id: number; name: string }[];
  const id = String(listed.find((token) => token.name === 'to revoke')?.id);
  await server.bursar('token', 'revoke', id, '--reason', 'because of a test');
  state = await takeStateSnapshot(server, [server.userToken, server.adminToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

/** Moves the expiry of a token into the past. */
async function expireToken(name: string) {
  const { numUpdatedRows } = await withDatabase(server.data, (db) =>
    db.updateTable('tokens').set({ expiresAt: 1 }).where('name', '=', name).executeTakeFirst(),
  );
  assert.equal(numUpdatedRows, 1n);
}

const paths = ['/jobs/', '/jobs/hpc_one/proj_hpc_one_01/X/', '/quotas/', '/admin/quotas/301330/'];

const missing: [string, HeaderLine[]][] = [
  ['no Authorization header', []],
  ['an empty Authorization header', [['authorization', '']]],
  ['an Authorization header of spaces', [['authorization', '   ']]],
];

const malformed: [string, () => string][] = [
  ['a wrong scheme', () => `Basic ${Buffer.from(`x:${server.userToken}`).toString('base64')}`],
  ['another wrong scheme', () => `Token ${server.userToken}`],
  ['only the scheme', () => 'Bearer'],
  ['an empty bearer', () => 'Bearer '],
  ['only the token', () => server.userToken],
  ['two tokens', () => `Bearer ${server.userToken} ${server.userToken}`],
  ['a token in quotes', () => `Bearer "${server.userToken}"`],
  ['two schemes', () => `Bearer Bearer ${server.userToken}`],
  ['SQL', () => "Bearer ' or 1=1 --"],
  ['a list of credentials', () => `Bearer ${server.userToken}, Bearer ${server.userToken}`],
];

const rejected: [string, () => string, RegExp][] = [
  ['an unknown token', () => unknownToken, /unknown/],
  ['a token of one character', () => 'x', /unknown/],
  ['a token of 10 kB', () => 'x'.repeat(10_000), /unknown/],
  ['a token in another case', () => server.userToken.toUpperCase(), /unknown/],
  ['a token with an extra letter', () => `${server.userToken}A`, /unknown/],
  ['a token with a missing letter', () => server.userToken.slice(0, -1), /unknown/],
  ['an expired token', () => tokens.expired, /expired/],
  ['a revoked token', () => tokens.revoked, /revoked/],
];

describe('without a token', () => {
  for (const [name, headers] of missing) {
    test(`${name} is rejected on every path`, async () => {
      for (const path of paths) {
        const response = await sendRawRequest(server.url, { path, headers });
        assertProblem(response, { status: 401, code: 'token_missing', message: /Authorization: Bearer/ });
        assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer realm=/);
      }
    });

    test(`${name} submits no job`, async () => {
      const response = await sendRawRequest(server.url, {
        method: 'POST',
        path: '/jobs/hpc_one/',
        headers: [...headers, ...submission],
        body: 'PK',
      });
      assertProblem(response, { status: 401, code: 'token_missing' });
    });
  }
});

describe('with a malformed Authorization header', () => {
  for (const [name, value] of malformed) {
    test(`${name} is rejected`, async () => {
      const headers: HeaderLine[] = [['authorization', value()]];
      const response = await sendRawRequest(server.url, { path: '/jobs/', headers });
      assertProblem(response, { status: 401, code: 'token_invalid', message: /form "Bearer/ });
      assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer realm=/);
      const posted = await sendRawRequest(server.url, {
        method: 'POST',
        path: '/jobs/hpc_one/',
        headers: [...headers, ...submission],
      });
      assertProblem(posted, { status: 401, code: 'token_invalid' });
    });
  }
});

describe('with a token that is not valid', () => {
  for (const [name, token, message] of rejected) {
    test(`${name} is rejected on every path`, async () => {
      for (const path of paths) {
        const response = await sendRawRequest(server.url, { path, headers: [bearerHeader(token())] });
        assertProblem(response, { status: 401, code: 'token_invalid', message });
        assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer realm=/);
      }
    });

    test(`${name} submits no job`, async () => {
      const headers = [bearerHeader(token()), ...submission];
      const response = await sendRawRequest(server.url, { method: 'POST', path: '/jobs/hpc_one/', headers });
      assertProblem(response, { status: 401, code: 'token_invalid', message });
    });
  }

  test('a token in the query is ignored', async () => {
    for (const name of ['access_token', 'token', 'authorization']) {
      const response = await sendRawRequest(server.url, { path: `/jobs/?${name}=${server.userToken}` });
      assertProblem(response, { status: 401, code: 'token_missing' });
    }
  });
});

describe('/admin/quotas/', () => {
  const administrative = ['', 'hpc_one/', 'hpc_one/proj_hpc_one_01/'];

  test('is forbidden for an ordinary user, even for their own quotas', async () => {
    for (const user of ['301330', '300001', '999999']) {
      for (const rest of administrative) {
        const path = `/admin/quotas/${user}/${rest}`;
        const response = await sendRawRequest(server.url, { path, headers: [bearerHeader(server.userToken)] });
        assertProblem(response, { status: 403, code: 'forbidden', message: /administrators/ });
      }
    }
  });

  test('is forbidden for an administrator with a token without admin rights', async () => {
    for (const rest of administrative) {
      const path = `/admin/quotas/301330/${rest}`;
      const response = await sendRawRequest(server.url, { path, headers: [bearerHeader(tokens.unprivileged)] });
      assertProblem(response, { status: 403, code: 'insufficient_scope', message: /admin:read/ });
      const allowed = await sendRawRequest(server.url, { path, headers: [bearerHeader(server.adminToken)] });
      assert.equal(allowed.status, 200, 'the other token of the same administrator still works');
    }
  });

  for (const [name, user] of [
    ['an unknown user', '999999'],
    ['a user of twenty-one digits', '1'.repeat(21)],
    ['a user with a zero in front', '0301330'],
  ] as const) {
    test(`responds with user_unknown to ${name}`, async () => {
      for (const rest of administrative) {
        const path = `/admin/quotas/${user}/${rest}`;
        const response = await sendRawRequest(server.url, { path, headers: [bearerHeader(server.adminToken)] });
        assertProblem(response, { status: 404, code: 'user_unknown', message: /no user/ });
      }
    });
  }

  for (const [name, user] of [
    ['a word', 'nobody'],
    ['a negative number', '-301330'],
    ['a number with a sign', '+301330'],
    ['a number with a fraction', '301330.0'],
    ['a number in hexadecimal', '0x49912'],
    ['a number with a space', '301330%20'],
    ['a number with a NUL', '301330%00'],
    ['a number with a line feed', '301330%0A'],
    ['nothing', ''],
    ['a wildcard', '%25'],
    ['a number in other digits', encodeURIComponent('\u0663\u0660\u0661\u0663\u0663\u0660')],
  ] as const) {
    test(`responds with 404 to ${name} as user id`, async () => {
      for (const rest of administrative) {
        const path = `/admin/quotas/${user}/${rest}`;
        const response = await sendRawRequest(server.url, { path, headers: [bearerHeader(server.adminToken)] });
        const { code } = response.body as { code: string };
        assertProblem(response, { status: 404, code });
        assert.ok(['user_unknown', 'system_unknown', 'project_unknown', 'not_found'].includes(code), code);
      }
    });
  }

  test('responds with 404 to an unknown system or project of a known user', async () => {
    const headers = [bearerHeader(server.adminToken)];
    const system = await sendRawRequest(server.url, { path: '/admin/quotas/301330/hpc_six/', headers });
    assertProblem(system, { status: 404, code: 'system_unknown' });
    const project = await sendRawRequest(server.url, {
      path: '/admin/quotas/301330/hpc_one/proj_hpc_two_01/',
      headers,
    });
    assertProblem(project, { status: 404, code: 'project_unknown' });
  });
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

describe('the log', () => {
  test('contains no token that was sent in a path or a query', async () => {
    const marker = 'token-in-a-path';
    const headers: HeaderLine[] = [bearerHeader(server.userToken), ['x-request-id', marker]];
    for (const path of [
      `/jobs/?token=${server.userToken}`,
      `/jobs/${server.userToken}/`,
      `/${server.userToken}`,
      `/jobs/hpc_one/proj_hpc_one_01/${server.userToken}/?token=${server.userToken}`,
      `/jobs/hpc_one/proj_hpc_one_01/${'x'.repeat(140)}${server.userToken}/`,
      `/jobs/%zz/${server.userToken}/`,
      `/${'x'.repeat(460)}${server.userToken}/`,
    ]) {
      await sendRawRequest(server.url, { path, headers });
    }
    const lines = await readLogLines(server);
    assert.ok(lines.some((line) => line.reqId === marker));
    await assertCleanLog(server, [server.userToken]);
  });

  test('contains no token of an OpenID provider that was sent in a path', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const signature = 'c2lnbmF0dXJlLW9mLWEtdG9rZW4tb2YtYW4tT3BlbklELXByb3ZpZGVy';
    const token = [part({ alg: 'ES256' }), part({ sub: '1', exp: 4_000_000_000 }), signature].join('.');
    for (const path of [`/jobs/?access_token=${token}`, `/jobs/${token}/`, `/${token}`]) {
      await sendRawRequest(server.url, { path, headers: [bearerHeader(server.userToken)] });
    }
    await assertCleanLog(server, [signature]);
  });

  test('contains no token that was sent in another header', async () => {
    const headers: HeaderLine[] = [
      bearerHeader(server.userToken),
      ['cookie', `token=${server.userToken}`],
      ['referer', `http://localhost/?token=${server.userToken}`],
      ['user-agent', server.userToken],
      ['content-disposition', `attachment; filename=${server.userToken}`],
      ['payload', JSON.stringify({ [server.userToken]: server.userToken })],
    ];
    const response = await sendRawRequest(server.url, { method: 'POST', path: '/jobs/hpc_one/', headers });
    assertProblem(response, { status: 400, code: 'invalid_content_disposition' });
    await assertCleanLog(server, [server.userToken]);
  });

  test('is structured, and contains request ids and no tokens', async () => {
    await assertCleanLog(server, [server.userToken, server.adminToken, unknownToken, ...Object.values(tokens)]);
  });
});

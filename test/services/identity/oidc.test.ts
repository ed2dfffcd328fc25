import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createCaller, type Job, type Quota } from '../../support/api.ts';
import { audience, startProvider, type TestProvider } from '../../support/oidc-provider.ts';
import { firstUsers, startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

interface User {
  user: string;
  role: string;
  name: string | null;
  identities: { issuer: string; subject: string }[];
}

describe('access tokens of OpenID providers', () => {
  let provider: TestProvider;
  /** Its claims have the numbers of the users, and it does not decide about roles. */
  let numbering: TestProvider;
  let server: TestServer;
  before(async () => {
    provider = await startProvider({ claims: { admin: { groups: ['root'] } } });
    numbering = await startProvider({ claims: { ada: { number: 4711, name: 'Ada' } } });
    const groups = { claims: { groups: 'groups' }, roles: { root: 'administrator' } };
    const oidc = [
      {
        issuer: provider.issuer,
        audience,
        ...groups,
        projects: { lead: { project: 'hpc_one/proj_hpc_one_01', role: 'manager' } },
      },
      { issuer: numbering.issuer, audience, claims: { user: 'number' } },
    ];
    server = await startServer({ config: { ...shippedConfig(), oidc } });
  });
  after(async () => {
    await server.dispose();
    await Promise.all([provider.stop(), numbering.stop()]);
  });

  const callerOf = async (name: string, from = provider) => createCaller(server.url, await from.token(name));
  const admin = () => createCaller(server.url, server.adminToken);
  const sendJson = (method: string, path: string, body: object) =>
    admin().send(method, path, { 'content-type': 'application/json' }, JSON.stringify(body));

  test('the first request of a subject creates a user with a number and the default grants', async () => {
    const quotas = (await (await callerOf('ada')).get<Quota[]>('/quotas/')).body;
    assert.equal(quotas.length, 3);
    assert.match(quotas[0]?.user ?? '', /^9\d{10}$/);
    assert.equal(quotas[0]?.time_left, 18_000_000);
  });

  test('each subject of each issuer is one user', async () => {
    const userOf = async (name: string, from?: TestProvider) =>
      (await (await callerOf(name, from)).get<User>('/me/')).body.user;
    assert.equal(await userOf('ada'), await userOf('ada'));
    assert.notEqual(await userOf('ada'), await userOf('grace'));
    assert.equal(await userOf('ada', numbering), '4711');
  });

  test('ten concurrent first requests of a subject create one user', async () => {
    const token = await provider.token('elsewhere');
    const responses = await Promise.all(
      Array.from({ length: 10 }, () => createCaller(server.url, token).get<Quota[]>('/quotas/')),
    );
    assert.equal(new Set(responses.map(({ body }) => body[0]?.user)).size, 1);
  });

  test('a job belongs to the user who submitted it', async () => {
    const me = await callerOf('ada');
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(status, 201);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    assert.deepEqual((await (await callerOf('grace')).get<Job[]>('/jobs/')).body, []);
  });

  test('groups decide about the role, and administrators cannot change it', async () => {
    const path = `/admin/quotas/${firstUsers.user}/`;
    const statusOf = async (name: string) => (await (await callerOf(name)).get(path)).status;
    assert.deepEqual([await statusOf('admin'), await statusOf('ada')], [200, 403]);
    provider.claims.ada = { groups: ['root', 'lead'] };
    assert.equal(await statusOf('ada'), 200);
    provider.claims.ada = { groups: ['lead'] };
    assert.equal(await statusOf('ada'), 403);
    const me = (await (await callerOf('ada')).get<User & { roles: string[] }>('/me/')).body;
    assert.deepEqual(me.roles, ['user', 'project_manager']);
    const change = { role: 'operator', reason: 'runs the systems' };
    const refused = await sendJson('PUT', `/admin/users/${me.user}/role/`, change);
    assert.deepEqual([refused.status, (refused.body as { code: string }).code], [409, 'conflict']);
    await assert.rejects(server.bursar('token', 'create', '--user', me.user, '--admin'), /groups at http/);
    assert.equal((await sendJson('PUT', '/admin/users/4711/role/', change)).status, 200);
    assert.equal((await (await callerOf('ada', numbering)).get(path)).status, 200);
  });

  test('a user that exists is bound to an identity only by an operator', async () => {
    numbering.claims.grace = { number: Number(firstUsers.user) };
    const refused = await (await callerOf('grace', numbering)).get<{ code: string; detail: string }>('/jobs/');
    assert.deepEqual([refused.status, refused.body.code], [409, 'identity_conflict']);
    const [, command = ''] = /bursar (user link .*) --reason/.exec(refused.body.detail) ?? [];
    await server.bursar(...command.split(' '), '--reason', 'the same person');
    assert.equal((await (await callerOf('grace', numbering)).get<User>('/me/')).body.user, firstUsers.user);
    const { body } = await admin().get<User>(`/admin/users/${firstUsers.user}/`);
    assert.deepEqual(
      body.identities.map(({ issuer, subject }) => [issuer, subject]),
      [[numbering.issuer, 'grace']],
    );
  });

  test('a disabled user is refused with the next request', async () => {
    const me = await callerOf('ada', numbering);
    assert.equal((await me.get('/jobs/')).status, 200);
    const reason = { reason: 'left the site' };
    await sendJson('POST', '/admin/users/4711/disable/', reason);
    const refused = await me.get<{ code: string }>('/jobs/');
    assert.deepEqual([refused.status, refused.body.code], [403, 'user_disabled']);
    await sendJson('POST', '/admin/users/4711/enable/', reason);
    assert.equal((await me.get('/jobs/')).status, 200);
  });

  test('a token that is not valid is 401, and one that cannot be checked is 503 with Retry-After', async () => {
    const invalid = await createCaller(server.url, await provider.token('ada', 'https://other.test')).get('/jobs/');
    assert.equal(invalid.status, 401);
    assert.ok(invalid.headers.get('www-authenticate'));
    const unknownKey = await provider.sign({}, { kid: 'rotated' });
    assert.equal((await createCaller(server.url, unknownKey).get('/jobs/')).status, 401);
    const away = await startProvider();
    await away.stop();
    const oidc = [{ issuer: away.issuer, audience }];
    const other = await startServer({ config: { ...shippedConfig(), oidc } });
    try {
      const response = await createCaller(other.url, await away.sign()).get<{ code: string }>('/jobs/');
      assert.deepEqual([response.status, response.body.code], [503, 'unavailable']);
      assert.equal(response.headers.get('retry-after'), '5');
    } finally {
      await other.dispose();
    }
  });
});

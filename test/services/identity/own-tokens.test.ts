import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readAllPages } from '#client';
import { allScopes, userScopes } from '../../../src/domain/identity/policy.ts';
import { type ApiResponse, type Caller, createCaller } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract } from '../../support/contract.ts';
import { withDatabase } from '../../support/database.ts';
import { assertProblem } from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { signIn } from '../../support/sign-in.ts';
import { until } from '../../support/until.ts';

// Tokens that users manage themselves, and users that administrators manage.

interface Token {
  id: number;
  token: string;
  scopes: string[];
  expires_at: string;
  last_used_on: string | null;
  last_used_from: string | null;
  state: string;
}

const userId = '302701';
const json = { 'content-type': 'application/json' };
let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let admin: Caller;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(await server.token(userId));
  admin = contract.callerFor(server.adminToken);
});
after(() => server.dispose());

const create = (caller: Caller, body: object) =>
  caller.send('POST', '/me/tokens/', json, JSON.stringify(body)) as Promise<ApiResponse<Token>>;

async function createValid(body: object): Promise<Token & { caller: Caller }> {
  const { status, body: token, text, headers } = await create(me, body);
  assert.equal(status, 201, text);
  assert.equal(headers.get('cache-control'), 'no-store');
  return { ...token, caller: contract.callerFor(token.token) };
}

test('/me/ shows the user, the roles, the projects, and the scopes and expiry of the token', async () => {
  const { caller, expires_at } = await createValid({ name: 'narrow', scopes: ['jobs:read'], days: 1 });
  const { body } = await caller.get<{ projects: object[] }>('/me/');
  const { projects, ...rest } = body;
  assert.deepEqual(rest, {
    ...{ user: userId, name: null, mail: null, roles: ['user'], scopes: ['jobs:read'] },
    expires_at,
  });
  assert.deepEqual(projects[0], {
    ...{ project_hpc: 'HPC_ONE', project_name: 'proj_hpc_one_01', role: 'member', status: 'active' },
  });
});

test('/me/ and new tokens have only scopes that the role allows, whatever the session or token has', async () => {
  const session = await signIn(server, userId);
  const { scopes } = JSON.parse((await session.get('/me/')).text) as { scopes: string[] };
  assert.deepEqual(scopes, [...userScopes]);
  for (const [role, expected] of [
    ['user', [...userScopes]],
    ['auditor', [...userScopes, 'admin:read']],
    ['operator', [...allScopes]],
  ] as const) {
    const caller = contract.callerFor(await server.token(`3027${role.length}9`, { role, scopes: allScopes }));
    assert.deepEqual((await caller.get<{ scopes: string[] }>('/me/')).body.scopes, expected, role);
    assert.deepEqual((await create(caller, { name: 'default' })).body.scopes, expected, role);
  }
  const strong = contract.callerFor(await server.token(userId, { scopes: allScopes }));
  const refused = await create(strong, { name: 'more', scopes: ['jobs:read', 'admin:read'] });
  assertProblem(refused, { status: 400, code: 'bad_request', message: /your role .* admin:read/ });
});

test('a token can be used for its scopes only, and is listed without its secret', async () => {
  const { id, token, caller } = await createValid({ name: 'reads', scopes: ['jobs:read'] });
  assert.equal((await caller.get('/jobs/')).status, 200);
  assertProblem(await caller.get('/quotas/'), { status: 403, code: 'insufficient_scope' });
  const { body, text } = await me.get<Token[]>('/me/tokens/');
  assert.ok(body.some((listed) => listed.id === id && listed.state === 'valid'));
  assert.ok(!text.includes(token.slice(7)));
});

test('a token lives for 90 days unless the user chooses, and never longer than allowed', async () => {
  const days = ({ expires_at }: Token) => Math.round((Date.parse(expires_at) - Date.now()) / 86_400_000);
  assert.equal(days(await createValid({ name: 'default' })), 90);
  assert.equal(days(await createValid({ name: 'short', days: 3 })), 3);
  assertProblem(await create(me, { name: 'long', days: 366 }), { status: 400, code: 'bad_request' });
});

test('a token cannot create one with more scopes or a longer life, nor revoke one with more scopes', async () => {
  const strong = await createValid({ name: 'strong' });
  const weak = await createValid({ name: 'weak', scopes: ['jobs:read'], days: 2 });
  assertProblem(await create(weak.caller, { name: 'more', scopes: ['jobs:write'] }), {
    status: 400,
    code: 'bad_request',
  });
  assertProblem(await create(weak.caller, { name: 'longer', days: 3 }), { status: 400, code: 'bad_request' });
  const { body: child } = await create(weak.caller, { name: 'child' });
  assert.deepEqual([child.scopes, child.expires_at], [['jobs:read'], weak.expires_at]);
  const refused = await weak.caller.send('DELETE', `/me/tokens/${strong.id}/`);
  assertProblem(refused, { status: 403, code: 'forbidden' });
  assert.equal((await strong.caller.get('/jobs/')).status, 200);
});

test('a user has at most 100 valid tokens, which are listed by pages, newest first', async () => {
  const owner = contract.callerFor(await server.token('302799'));
  const created: Token[] = [];
  for (let count = 1; count < 100; count += 1) created.push((await create(owner, { name: `token ${count}` })).body);
  const refused = await create(owner, { name: 'one more' });
  assertProblem(refused, { status: 409, code: 'too_many_tokens', message: /100 valid tokens\. Revoke one/ });
  const ids = async (query: string) => (await owner.get<Token[]>(`/me/tokens/${query}`)).body.map(({ id }) => id);
  const newestFirst = created.map(({ id }) => id).reverse();
  const all = await ids('');
  assert.deepEqual(all.slice(0, 99), newestFirst);
  assert.deepEqual(await ids('?limit=3'), newestFirst.slice(0, 3));
  assert.deepEqual(await ids(`?limit=5&before=${newestFirst[2]}`), newestFirst.slice(3, 8));
  assert.deepEqual(
    (await admin.get<Token[]>('/admin/users/302799/tokens/?limit=2')).body.map(({ id }) => id),
    newestFirst.slice(0, 2),
  );
  for (const query of ['?limit=0', '?limit=201', '?before=0', '?after=1'])
    assert.equal((await owner.get(`/me/tokens/${query}`)).status, 400, query);

  assert.equal((await owner.send('DELETE', `/me/tokens/${newestFirst[0]}/`)).status, 200);
  const concurrent = await Promise.all(['a', 'b', 'c', 'd'].map((name) => create(owner, { name })));
  assert.deepEqual(concurrent.map(({ status }) => status).sort(), [201, 409, 409, 409]);
  const listed = await readAllPages(async ({ limit, before }) => {
    const page = before === undefined ? '' : `&before=${before}`;
    return (await owner.get<Token[]>(`/me/tokens/?limit=${Math.min(limit, 200)}${page}`)).body;
  });
  assert.equal(listed.filter(({ state }) => state === 'valid').length, 100);
  assert.equal(listed.length, 101);
});

test('a revoked token is refused at once, and revoking it can be repeated', async () => {
  const { id, caller } = await createValid({ name: 'revoked' });
  const { body } = (await me.send('DELETE', `/me/tokens/${id}/`)) as ApiResponse<Token>;
  assert.equal(body.state, 'revoked');
  assertProblem(await caller.get('/jobs/'), { status: 401, code: 'token_invalid' });
  assert.equal((await me.send('DELETE', `/me/tokens/${id}/`)).status, 200);
});

test('tokens of others are unknown', async () => {
  const other = await server.token('302702');
  const { body: tokens } = await createCaller(server.url, other).get<Token[]>('/me/tokens/');
  for (const id of [tokens[0]?.id, 999_999, 'x'])
    assertProblem(await me.send('DELETE', `/me/tokens/${id}/`), { status: 404, code: 'token_unknown' });
});

test('a token for one project cannot be used for another one, nor create or revoke one that can', async () => {
  const { caller } = await createValid({ name: 'one', hpc: 'hpc_one', project_name: 'proj_hpc_one_01' });
  assert.equal((await caller.get('/jobs/hpc_one/proj_hpc_one_01/')).status, 200);
  for (const path of ['/jobs/', '/jobs/hpc_one/', '/quotas/hpc_two/proj_hpc_two_01/', '/events/?limit=1'])
    assertProblem(await caller.get(path), { status: 403, code: 'insufficient_scope' });
  assertProblem(await create(caller, { name: 'wider', hpc: 'hpc_two' }), { status: 400, code: 'bad_request' });
  assertProblem(await create(caller, { name: 'wider', hpc: 'hpc_one' }), { status: 400, code: 'bad_request' });
  assert.equal((await create(caller, { name: 'same' })).status, 201);
  const wider = await createValid({ name: 'wider' });
  assertProblem(await caller.send('DELETE', `/me/tokens/${wider.id}/`), { status: 403, code: 'forbidden' });
});

test('the first use of a token on a day is stored, with the address', async () => {
  const today = () => new Date().toISOString().slice(0, 10);
  const { id, caller } = await createValid({ name: 'used' });
  const days = [today()];
  await caller.get('/jobs/');
  days.push(today());
  const used = await until('the use is stored', async () => {
    const { body } = await me.get<Token[]>('/me/tokens/');
    return body.find((token) => token.id === id && token.last_used_on !== null);
  });
  assert.ok(days.includes(used.last_used_on ?? ''), used.last_used_on ?? '');
  assert.equal(used.last_used_from, '127.0.0.1');
});

test('a repeated request with the same key creates one token, whose secret is neither stored nor shown again', async () => {
  const headers = { ...json, 'idempotency-key': 'the-same' };
  const send = (caller: Caller) => caller.send('POST', '/me/tokens/', headers, JSON.stringify({ name: 'once' }));
  const { body } = (await send(me)) as ApiResponse<Token>;
  const narrow = await createValid({ name: 'narrow', scopes: ['jobs:read'] });
  for (const caller of [me, narrow.caller]) {
    const repeated = await send(caller);
    assertProblem(repeated, { status: 409, code: 'conflict' });
    assert.ok(repeated.text.includes(`token ${body.id}`), repeated.text);
    assert.ok(!repeated.text.includes(body.token));
  }
  const { body: tokens } = await me.get<(Token & { name: string })[]>('/me/tokens/');
  assert.equal(tokens.filter(({ name }) => name === 'once').length, 1);
  const stored = await withDatabase(server.data, (db) => db.selectFrom('idempotency').select('response').execute());
  assert.deepEqual(
    stored.filter(({ response }) => response.includes('bursar_')),
    [],
  );
});

test('an operator revokes all tokens of a user, and of nobody else', async () => {
  const lost = createCaller(server.url, await server.token('302704'));
  const operator = contract.callerFor(await server.token('302703', { role: 'operator', scopes: allScopes }));
  const revoked = (await operator.send('DELETE', '/admin/users/302704/tokens/')) as ApiResponse<{ state: string }[]>;
  assert.deepEqual([revoked.status, revoked.body.map(({ state }) => state)], [200, ['revoked']]);
  assertProblem(await lost.get('/jobs/'), { status: 401, code: 'token_invalid' });
  assert.equal((await me.get('/jobs/')).status, 200);
});

test('an operator lists and revokes tokens of a user, and the audit trail has it', async () => {
  const token = await server.token('302703', { role: 'operator', scopes: allScopes });
  const operator = contract.callerFor(token);
  const { id, caller } = await createValid({ name: 'lost' });
  const path = `/admin/users/${userId}/tokens/`;
  assert.ok((await operator.get<Token[]>(path)).body.some((listed) => listed.id === id));
  assert.equal((await operator.send('DELETE', `${path}${id}/`)).status, 200);
  assertProblem(await caller.get('/jobs/'), { status: 401, code: 'token_invalid' });
  const { body: audit } = await admin.get<{ actor: string; action: string; subject: string }[]>('/admin/audit/');
  assert.ok(
    audit.some(
      ({ actor, action, subject }) => `${actor} ${action} ${subject}` === `302703 token.revoke ${userId}/${id}`,
    ),
  );
});

test('a disabled user is refused until enabled again', async () => {
  const user = contract.callerFor(await server.token('302704'));
  const change = (action: string) =>
    admin.send('POST', `/admin/users/302704/${action}/`, json, JSON.stringify({ reason: 'left the institute' }));
  assert.equal((await user.get('/jobs/')).status, 200);
  assert.equal((await change('disable')).status, 200);
  assertProblem(await user.get('/jobs/'), { status: 403, code: 'user_disabled' });
  assert.equal((await change('enable')).status, 200);
  assert.equal((await user.get('/jobs/')).status, 200);
  const self = await admin.send('POST', '/admin/users/300001/disable/', json, JSON.stringify({ reason: 'by mistake' }));
  assertProblem(self, { status: 409, code: 'conflict' });
});

test('a role changes in both directions, for all tokens of the user', async () => {
  const user = contract.callerFor(await server.token('302705', { scopes: allScopes }));
  const setRole = (role: string) =>
    admin.send('PUT', '/admin/users/302705/role/', json, JSON.stringify({ role, reason: 'reviews the year' }));
  assertProblem(await user.get('/admin/users/'), { status: 403, code: 'forbidden' });
  assert.equal((await setRole('auditor')).status, 200);
  assert.equal((await user.get('/admin/users/')).status, 200);
  assert.equal((await setRole('user')).status, 200);
  assertProblem(await user.get('/admin/users/'), { status: 403, code: 'forbidden' });
});

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ApiError, Bursar, ConnectionError, TokenError } from '#client';
import { retryDelayMs, shouldRetry } from '../../clients/typescript/src/retry.ts';
import { collect } from '../support/collect.ts';
import { type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { createZip } from '../support/zip.ts';

let server: TestServer;
let proxy: CuttingProxy;
let bursar: Bursar;
const lines: string[] = [];

before(async () => {
  server = await startServer();
  proxy = await startCuttingProxy(server.url);
  bursar = new Bursar({ url: proxy.url, token: server.userToken, onRequest: (line) => lines.push(line) });
});
after(async () => {
  await proxy.close();
  await server.dispose();
});

const project = { hpc: 'hpc_one', project_name: 'proj_hpc_one_01' };
const countRequests = (pattern: RegExp) => proxy.requests().filter((line) => pattern.test(line)).length;
const toApiError = (error: unknown) => {
  assert.ok(error instanceof ApiError, String(error));
  return error;
};

describe('operations', () => {
  test('return the JSON, the text or the response', async () => {
    const quota = await bursar.api.getQuota({ path: project });
    assert.equal(quota.project_name, 'proj_hpc_one_01');
    const csv = await bursar.api.getStatement({ path: project, query: { format: 'csv' }, as: 'text' });
    assert.match(csv, /^resource,unit,/);
    const response = await bursar.api.listJobs({ query: { limit: 1 }, as: 'response' });
    assert.equal(response.status, 200);
    await response.body?.cancel();
    assert.match(await bursar.api.getMetrics(), /^# /);
  });

  test('administer, with the token of an administrator', async () => {
    const admin = new Bursar({ url: server.url, token: server.adminToken });
    const users = await admin.api.listUsers();
    assert.ok(users.length >= 2);
    const path = { hpc: 'hpc_two' };
    const paused = await admin.api.pauseSystem({ path, body: { reason: 'on purpose' } });
    assert.equal(paused.hpc, 'hpc_two');
    await admin.api.resumeSystem({ path, body: { reason: 'over' } });
    const { token, id } = await admin.api.createToken({ body: { name: 'client' } });
    assert.match(token, /^bursar_/);
    await admin.api.revokeToken({ path: { token_id: id } });
  });

  test('send forms, and turn the errors of the device flow into their codes', async () => {
    const anonymous = new Bursar({ url: server.url });
    const { device_code } = await anonymous.api.startDeviceAuthorization({ body: { client_id: 'test' } });
    const grant_type = 'urn:ietf:params:oauth:grant-type:device_code';
    const error = await anonymous.api.pollDeviceToken({ body: { device_code, grant_type } }).catch(toApiError);
    assert.equal('code' in error && error.code, 'authorization_pending');
  });
});

describe('errors', () => {
  test('have the code, the fields and the request id of the problem', async () => {
    const unknown = await bursar
      .job({ ...project, job_id: 'NONE' })
      .refresh()
      .catch(toApiError);
    assert.ok(unknown instanceof ApiError);
    assert.deepEqual([unknown.code, unknown.status], ['job_unknown', 404]);
    assert.ok(unknown.requestId);
    const invalid = await bursar.quote({ hpc: 'hpc_one', command: 'true', runtime: -1 }).catch(toApiError);
    assert.ok(invalid instanceof ApiError);
    assert.deepEqual([invalid.code, invalid.fields[0]?.field], ['invalid_payload', 'runtime']);
  });

  test('of a quota tell what is short', async () => {
    const request = { hpc: 'hpc_one', command: 'true', nodes: 64, coresPerNode: 64, runtime: 48 };
    const error = await bursar.submit(request).catch(toApiError);
    assert.ok(error instanceof ApiError && typeof error.problem.needed === 'number', JSON.stringify(error));
  });

  test('of a proxy have a code too', async () => {
    proxy.respondNext('404 Not Found', { 'content-type': 'text/html' }, '<h1>nothing here</h1>');
    const error = await bursar.api.getMe().catch(toApiError);
    assert.ok(error instanceof ApiError);
    assert.deepEqual([error.code, error.status], ['unexpected_response', 404]);
  });

  test('of the connection name the server, and never the token', async () => {
    const failures: string[] = [];
    const away = new Bursar({
      url: 'http://127.0.0.1:9',
      token: 'bursar_x',
      retries: 1,
      onRequest: (l) => failures.push(l),
    });
    const error = await away.api.getMe().catch((thrown: unknown) => thrown);
    assert.ok(error instanceof ConnectionError);
    assert.equal(error.code, 'server_unreachable');
    assert.match(error.message, /127\.0\.0\.1:9/);
    assert.equal(failures.length, 2);
    assert.doesNotMatch(failures.join() + lines.join(), /bursar_/);
  });

  test('of an abort are its reason', async () => {
    const reason = new Error('enough');
    await assert.rejects(bursar.api.getMe({ signal: AbortSignal.abort(reason) }), reason);
  });

  test('of a token that cannot be a header are not repeated, and do not show it', async () => {
    const error = await new Bursar({ url: server.url, token: 'a\nsecret' }).api
      .getMe()
      .catch((thrown: unknown) => thrown);
    assert.ok(error instanceof TokenError);
    assert.doesNotMatch(String(error.stack), /secret/);
  });
});

describe('repetitions', () => {
  test('follow 503 with Retry-After', async () => {
    const before = countRequests(/^GET \/hpc\//);
    proxy.respondNext('503 Service Unavailable', { 'retry-after': '0' });
    assert.ok((await bursar.api.listSystems()).length > 0);
    assert.equal(countRequests(/^GET \/hpc\//) - before, 2);
  });

  test('follow no other error, and no request that might change something twice', async () => {
    const before = proxy.requests().length;
    proxy.respondNext('500 Internal Server Error', {});
    await assert.rejects(bursar.api.getMe(), { status: 500 });
    proxy.respondNext('503 Service Unavailable', { 'retry-after': '0' });
    await assert.rejects(bursar.api.signOut(), { status: 503 });
    assert.equal(proxy.requests().length - before, 2);
  });

  test('of a submission whose response was lost give one job', async () => {
    const tag = 'lost-response';
    proxy.cutAfter('down', 1);
    const input = new Uint8Array(await createZip({ 'a.txt': 'a' }));
    const job = await bursar.submit({ hpc: 'hpc_one', command: 'true', tags: [tag], input });
    assert.equal(proxy.pendingCuts(), 0);
    const jobs = await collect(bursar.jobs({ tag: [tag] }));
    assert.deepEqual(
      jobs.map(({ job_id }) => job_id),
      [job.job_id],
    );
  });

  test('with a key of the caller return the same job', async () => {
    const request = { hpc: 'hpc_one', command: 'true', idempotencyKey: 'my-key' };
    const [first, second] = [await bursar.submit(request), await bursar.submit(request)];
    assert.equal(first.job_id, second.job_id);
  });

  test('wait for Retry-After, or longer with every failure', () => {
    const busy = new ApiError(503, { code: 'server_busy' }, new Headers({ 'retry-after': '7' }));
    assert.ok(retryDelayMs(busy, 0) >= 7000);
    const cut = new ConnectionError('http://x', new Error());
    assert.ok(retryDelayMs(cut, 5) > retryDelayMs(cut, 0));
  });

  test('do not follow an error that lasts', () => {
    const withCode = (status: number, code: string, retryAfter = '1') =>
      new ApiError(status, { code } as never, new Headers({ 'retry-after': retryAfter }));
    assert.equal(shouldRetry(withCode(429, 'too_many_requests')), true);
    assert.equal(shouldRetry(withCode(409, 'idempotency_key_in_use')), true);
    assert.equal(shouldRetry(withCode(429, 'too_many_jobs')), false);
    assert.equal(shouldRetry(withCode(503, 'system_paused')), false);
    assert.equal(shouldRetry(withCode(503, 'unavailable', '3600')), false);
    assert.equal(shouldRetry(withCode(409, 'conflict')), false);
  });
});

test('jobs are listed page by page', async () => {
  const tags = ['pages'];
  const submitted = await Promise.all([1, 2, 3].map(() => bursar.submit({ hpc: 'hpc_one', command: 'true', tags })));
  const listed = await collect(bursar.jobs({ ...{ hpc: 'hpc_one', project: 'proj_hpc_one_01' }, tag: tags, limit: 2 }));
  assert.deepEqual(listed.map(({ job_id }) => job_id).sort(), submitted.map(({ job_id }) => job_id).sort());
});

test('texts that are not ASCII arrive', async () => {
  const { data } = await bursar.submit({ hpc: 'hpc_one', command: 'true', title: 'Grüße 🚀' });
  assert.equal(data.title, 'Grüße 🚀');
});

test('quotas, a quote and a statement are typed', async () => {
  const [quota] = await bursar.quotas({ hpc: 'hpc_one' });
  assert.equal(quota?.user, '301330');
  const { cost, accepted } = await bursar.quote({ hpc: 'hpc_two', tool: 'BASH', runtime: 0.5 });
  assert.ok(accepted && cost > 0);
  const statement = await bursar.statement({ hpc: 'hpc_one', project: 'proj_hpc_one_01' });
  assert.equal(statement.project_name, 'proj_hpc_one_01');
});

/** Compiled, never run. */
export const typeErrors = () => [
  // @ts-expect-error: the path is missing
  bursar.api.getQuota(),
  // @ts-expect-error: there is no such parameter
  bursar.api.getQuota({ path: { hpc: 'hpc_one' } }),
  // @ts-expect-error: there is no such operation
  bursar.api.getNothing(),
  // @ts-expect-error: the system is missing
  bursar.submit({ command: 'true' }),
  // @ts-expect-error: text is no Job
  bursar.api.getStatement({ path: project, as: 'text' }).then((text) => text.project_name),
];

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createCaller } from '../../support/api.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import { assertProblem } from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

describe('metrics with a token', () => {
  const token = 'a-token-for-prometheus';
  let server: TestServer;
  before(async () => {
    server = await startServer({ config: { ...shippedConfig(), metrics: { token } } });
  });
  after(() => server.dispose());

  test('are 401 without it, also with the token of an administrator', async () => {
    assertProblem(await createCaller(server.url, null).get('/metrics'), { status: 401, code: 'token_missing' });
    for (const wrong of [server.adminToken, `${token}x`, token.slice(1)]) {
      assertProblem(await createCaller(server.url, wrong).get('/metrics'), { status: 401, code: 'token_invalid' });
    }
    assert.equal((await createCaller(server.url, null).send('HEAD', '/metrics')).status, 401);
  });

  test('are served with it', async () => {
    const { status, text } = await createCaller(server.url, token).get('/metrics');
    assert.equal(status, 200);
    assert.match(text, /^bursar_system_up\{hpc="hpc_one"\} 1$/m);
  });

  test('are described as such; the probes need no token', async () => {
    const { document } = await loadOpenApiContract(server);
    assert.equal(document.paths['/metrics']?.get?.security, undefined);
    assert.deepEqual(document.paths['/livez']?.get?.security, []);
    for (const path of ['/livez', '/readyz']) {
      assert.equal((await createCaller(server.url, null).get(path)).status, 200);
    }
  });
});

describe('metrics with a port of their own', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer({ config: { ...shippedConfig(), metrics: { port: 0 } } });
  });
  after(() => server.dispose());

  test('are served there with the probes, and not by the API', async () => {
    assertProblem(await createCaller(server.url, server.adminToken).get('/metrics'), {
      status: 404,
      code: 'not_found',
    });
    assert.equal((await loadOpenApiContract(server)).document.paths['/metrics'], undefined);
    const operator = createCaller(server.metricsUrl ?? '', null);
    assert.match((await operator.get('/metrics')).text, /^bursar_http_requests_total\{method="GET",status="404"\} 1$/m);
    assert.equal((await operator.get('/livez')).status, 200);
  });

  test('have no path of the API there', async () => {
    for (const path of ['/jobs/', '/admin/users/', '/openapi.json', '/docs/']) {
      const response = await createCaller(server.metricsUrl ?? '', server.adminToken).get(path);
      assertProblem(response, { status: 404, code: 'not_found' });
    }
  });
});

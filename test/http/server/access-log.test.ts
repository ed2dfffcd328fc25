import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import { createAccessLog, loggablePath, type ServedRequest } from '../../../src/http/server/served-request.ts';
import { createCaller } from '../../support/api.ts';
import { openEventStream } from '../../support/event-stream.ts';
import type { LogLine } from '../../support/logs.ts';
import { openRawConnection, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

describe('the access log of a server', () => {
  let server: TestServer;
  let auth: [string, string];

  before(async () => {
    const config = shippedConfig();
    server = await startServer({ config: { ...config, server: { ...config.server, trustProxy: ['127.0.0.1'] } } });
    auth = ['authorization', `Bearer ${server.userToken}`];
  });
  after(() => server.dispose());

  const findLines = (isWanted: (line: LogLine) => boolean) =>
    until('the line is in the log', () => {
      const text = server.log().split('\n').slice(0, -1);
      const lines = text.map((line) => JSON.parse(line) as LogLine).filter(isWanted);
      return lines.length === 0 ? undefined : lines;
    });

  /** The one line of a request. */
  async function lineOf(reqId: string): Promise<LogLine> {
    const lines = await findLines((line) => line.reqId === reqId);
    assert.equal(lines.length, 1, JSON.stringify(lines));
    return lines[0] as LogLine;
  }

  async function send(reqId: string, path: string, headers: [string, string][] = []) {
    await sendRawRequest(server.url, { path, headers: [['x-request-id', reqId], ...headers] });
    const { time: _, ms, bytes, ...line } = await lineOf(reqId);
    assert.ok(typeof ms === 'number' && ms >= 0, String(ms));
    assert.ok(typeof bytes === 'number' && bytes > 100, String(bytes));
    return line;
  }

  test('has caller, address, route, path, status, time and bytes of a request', async () => {
    const line = await send('line-1', '/jobs/hpc_one/?limit=1', [auth, ['x-forwarded-for', '192.0.2.7']]);
    assert.ok(Number.isInteger(line.token), String(line.token));
    delete line.token;
    assert.deepEqual(line, {
      level: 30,
      address: '192.0.2.7',
      user: '301330',
      reqId: 'line-1',
      method: 'GET',
      route: '/jobs/:hpc/',
      path: '/jobs/hpc_one/',
      status: 200,
      msg: 'request served',
    });
  });

  test('counts the bytes of each response on one connection', async () => {
    const head = (reqId: string) =>
      `GET /hpc/ HTTP/1.1\r\nhost: x\r\n${auth.join(': ')}\r\nx-request-id: ${reqId}\r\n\r\n`;
    const sizes = [];
    for (const reqId of ['bytes-1', 'bytes-2']) {
      const connection = await openRawConnection(server.url);
      await connection.write(head(reqId));
      await connection.readResponses(1);
      sizes.push((await lineOf(reqId)).bytes);
    }
    const [response] = [await fetch(`${server.url}/hpc/`, { headers: [auth] })];
    const body = (await response.arrayBuffer()).byteLength;
    assert.equal(sizes[0], sizes[1]);
    assert.ok(Number(sizes[0]) > body && Number(sizes[0]) < body + 2000, `${sizes[0]} ${body}`);
  });

  test('has requests that were refused, and those without a route', async () => {
    const { status, route, user } = await send('refused-1', '/jobs/');
    assert.deepEqual([status, route, user], [401, '/jobs/', undefined]);
    const unknown = await send('refused-2', '/nothing/here');
    assert.deepEqual([unknown.status, unknown.route, unknown.path], [404, undefined, '/nothing/here']);
    const malformed = await send('refused-3', '/jobs/%zz/');
    assert.deepEqual([malformed.status, malformed.route, malformed.path], [404, undefined, '/jobs/%zz/']);
    const unmet = await send('refused-4', '/jobs/', [['expect', 'a miracle']]);
    assert.deepEqual([unmet.status, unmet.method, unmet.path, unmet.address], [417, 'GET', '/jobs/', '127.0.0.1']);
  });

  test('has a request that is not HTTP, with its address', async () => {
    const connection = await openRawConnection(server.url);
    await connection.write('this is not HTTP\r\n\r\n');
    await connection.readUntilClosed();
    const [line] = await findLines(({ msg }) => msg === 'malformed request rejected');
    assert.deepEqual([line?.address, line?.status], ['127.0.0.1', 400]);
  });

  test('has a response from the cache', { skip: process.env.BURSAR_TEST_DATABASE === 'postgres' }, async () => {
    const lines = [];
    for (const n of [1, 2, 3, 4]) lines.push(await send(`cached-${n}`, '/quotas/', [auth]));
    for (const line of lines) assert.deepEqual({ ...line, reqId: '' }, { ...lines[0], reqId: '' });
    assert.equal(lines[0]?.route, '/quotas/');
  });

  test('has an upload whose client disconnects before the answer, with status 499', async () => {
    const connection = await openRawConnection(server.url);
    const head = [
      'POST /jobs/hpc_one/ HTTP/1.1\r\nhost: x\r\nx-request-id: aborted-1\r\ncontent-length: 100000',
      auth.join(': '),
      'content-disposition: attachment; filename=job.zip',
      'payload: {"command": "true", "node_number": "1", "core_number": "1", "runtime": "0.1", "title": "x"}',
    ];
    await connection.write(`${head.join('\r\n')}\r\n\r\nPK`);
    await until('the upload has begun', async () => {
      const metrics = await (await fetch(`${server.url}/metrics`)).text();
      return /bursar_open_requests\{kind="upload"\} 1/.test(metrics) ? true : undefined;
    });
    connection.destroy();
    const { status, aborted, user } = await lineOf('aborted-1');
    assert.deepEqual([status, aborted, user], [499, true, '301330']);
  });

  test('has an event stream when it ends', async () => {
    const stream = await openEventStream(server.url, server.userToken, { headers: { 'x-request-id': 'stream-1' } });
    assert.ok(!server.log().includes('stream-1'));
    stream.disconnect();
    const { route, status } = await lineOf('stream-1');
    assert.deepEqual([route, status], ['/events/', 200]);
  });

  test('has probes at level debug only, unless they fail', async () => {
    await sendRawRequest(server.url, { path: '/livez', headers: [['x-request-id', 'probe-1']] });
    await sendRawRequest(server.url, { path: '/livez', method: 'POST', headers: [['x-request-id', 'probe-2']] });
    await lineOf('probe-2');
    assert.ok(!server.log().includes('probe-1'));
  });

  test('has no secret, wherever in a path or in a query it is sent', async () => {
    const secrets = ['bursar_', 'bursar_code_', 'bursar_device_', 'whsec_'].map((prefix) => prefix + 'x7'.repeat(16));
    const encoded = secrets.map((secret) => secret.replace('a', '%61').replace('e', '%65').replace('x7', '%787'));
    for (const [n, secret] of [...secrets, ...encoded].entries()) {
      const line = await send(`secret-${n}`, `/jobs/hpc_one/${secret}/?code=${secret}`, [auth]);
      assert.match(String(line.path), /^\/jobs\/hpc_one\/\*\*\*\/?$/);
    }
    await createCaller(server.url, server.userToken).get(`/sign-in/?code=${secrets[1]}`);
    assert.doesNotMatch(server.log(), /x7x7/);
  });
});

describe('a sample of the requests', () => {
  const request: ServedRequest = {
    ...{ requestId: 'r', method: 'GET', url: '/jobs/', route: '/jobs/', status: 200, ms: 1, latencyMs: 1 },
    ...{ bytes: 1, isAborted: false, address: '127.0.0.1', caller: null },
  };

  function logRequests(ratio: number, count: number, changes: Partial<ServedRequest> = {}) {
    const lines: LogLine[] = [];
    const logAccess = createAccessLog(
      pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) }),
      ratio,
    );
    for (let n = 0; n < count; n++) logAccess({ ...request, ...changes });
    return lines;
  }

  test('says its ratio in each line', () => {
    const lines = logRequests(0.25, 4000);
    // Seven standard deviations on both sides.
    assert.ok(lines.length > 800 && lines.length < 1200, String(lines.length));
    assert.ok(lines.every(({ sampleRatio }) => sampleRatio === 0.25));
  });

  test('has every failed, slow and aborted request, without a ratio', () => {
    for (const changes of [{ status: 401 }, { status: 503 }, { ms: 1000 }, { status: 499, isAborted: true }]) {
      const lines = logRequests(0, 10, changes);
      assert.equal(lines.length, 10);
      assert.ok(lines.every((line) => !('sampleRatio' in line)));
    }
    assert.equal(logRequests(0, 10).length, 0);
    assert.equal(logRequests(1, 10).length, 10);
  });
});

test('the path in the log is short, and has no escape that it did not have', () => {
  assert.equal(loggablePath(`/${'a'.repeat(1000)}`).length, 500);
  assert.equal(loggablePath('/jobs/a%20b%0a/?x'), '/jobs/a%20b%0a/');
});

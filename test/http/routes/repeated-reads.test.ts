import assert from 'node:assert/strict';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { runBursar } from '../../support/command-line.ts';
import { queryDatabase } from '../../support/database.ts';
import { jobPath } from '../../support/jobs.ts';
import { readLogLines } from '../../support/logs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

interface Response {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

describe('a repeated read', () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let server: TestServer;
  let me: Caller;
  let job: Job;

  before(async () => {
    const config = { ...shippedConfig(), limits: { userRequests: 200 } };
    server = await startServer({ config, tuning: { rateWindowMs: 3_600_000 } });
    me = createCaller(server.url, server.userToken);
    job = (await me.submit('/jobs/hpc_one/', { command: 'true' })).body;
    // Not over HTTP: on a slow machine the polls alone would exceed the rate limit.
    const ended = () =>
      queryDatabase(server.data, "select 1 from jobs where job_id = ? and state = 'ended'", [job.job_id]);
    await until('the end of the job', async () => ((await ended()).length > 0 ? true : undefined));
  });
  after(async () => {
    agent.destroy();
    await server.dispose();
  });

  const get = (path: string, token: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<Response>((resolve, reject) => {
      const sent = request(`${server.url}${path}`, {
        agent,
        method,
        headers: { authorization: `Bearer ${token}`, ...headers },
      });
      sent.once('error', reject).once('response', async (response) => {
        let text = '';
        for await (const chunk of response.setEncoding('utf8')) text += chunk;
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      });
      sent.end();
    });
  const repeat = async (path: string, token: string, headers?: Record<string, string>) => {
    const responses = [
      await get(path, token, headers),
      await get(path, token, headers),
      await get(path, token, headers),
    ];
    return responses as [Response, Response, Response];
  };
  const tokenIdOf = async (user: string) => {
    const { stdout } = await server.bursar('token', 'list', '--user', user, '--json');
    return String((JSON.parse(stdout) as { id: number }[]).at(-1)?.id);
  };

  test('gets the same response, except for its request id and rate limit', async () => {
    for (const path of [jobPath(job), '/jobs/', '/jobs/?limit=1', '/quotas/', '/quotas/hpc_one/proj_hpc_one_01/']) {
      const [first, ...others] = await repeat(path, server.userToken);
      const fixed = ({ status, headers, text }: Response) => {
        const { date: _date, 'x-request-id': _id, ratelimit: _left, ...rest } = headers;
        return { status, headers: rest, text };
      };
      assert.equal(first.status, 200);
      assert.equal(first.headers['content-type'], 'application/json', path);
      for (const other of others) assert.deepEqual(fixed(other), fixed(first));
      const ids = [first, ...others].map(({ headers }) => headers['x-request-id']);
      assert.equal(new Set(ids).size, 3);
      const left = [first, ...others].map(({ headers }) => Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]));
      assert.deepEqual(left, [left[0], Number(left[0]) - 1, Number(left[0]) - 2]);
      const tag = String(first.headers.etag);
      for (const { status, text } of await repeat(path, server.userToken, { 'if-none-match': tag }))
        assert.deepEqual([status, text], [304, '']);
    }
  });

  test('is logged and counted like any other request', async () => {
    const count = async () =>
      Number(/requests_total\{method="GET",status="200"\} (\d+)/.exec((await me.get('/metrics')).text)?.[1]);
    const before = await count();
    const responses = await repeat('/jobs/', server.userToken, { 'x-request-id': 'again-and-again' });
    assert.deepEqual(
      responses.map(({ headers }) => headers['x-request-id']),
      Array(3).fill('again-and-again'),
    );
    assert.ok((await count()) >= before + 3);
    const lines = (await readLogLines(server)).filter(({ reqId }) => reqId === 'again-and-again');
    assert.equal(lines.length, 3);
  });

  test('shows a change at once, also one by another process', async () => {
    await repeat('/jobs/', server.userToken);
    await repeat(jobPath(job), server.userToken);
    const changed = JSON.stringify({ ...job, title: 'changed' });
    await queryDatabase(server.data, 'update users set jobs_version = jobs_version + 1 where id = ?', [job.owner]);
    await queryDatabase(server.data, 'update jobs set public_json = ? where job_id = ?', [changed, job.job_id]);
    assert.equal((await get(jobPath(job), server.userToken)).text, changed);
    assert.equal((await get('/jobs/', server.userToken)).text, `[${changed}]`);
    await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(JSON.parse((await get('/jobs/', server.userToken)).text).length, 2);
  });

  test('is never answered with the response of another caller on the same connection', async () => {
    const other = await server.token('4242');
    await repeat('/jobs/', server.userToken);
    assert.equal((await get('/jobs/', other)).text, '[]');
    assert.equal((await get(jobPath(job), other)).status, 404);
    assert.equal((await get('/jobs/', 'nobody')).status, 401);
    assert.equal((await get('/jobs/', server.userToken, {}, 'HEAD')).text, '');
    assert.equal((await get('/jobs/', server.userToken, {}, 'DELETE')).status, 405);
  });

  test('is never answered with the response of another caller when requests are pipelined', async () => {
    const other = await server.token('4646');
    const text = (path: string, token: string, more = '') =>
      `GET ${path} HTTP/1.1\r\nHost: bursar\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`;
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(text(jobPath(job), server.userToken) + text('/jobs/', other, 'Connection: close\r\n'));
    let received = '';
    for await (const chunk of socket.setEncoding('utf8')) received += chunk;
    assert.deepEqual(received.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200']);
    assert.equal((await get('/jobs/', other)).text, '[]');
    assert.equal((await get(jobPath(job), other)).status, 404);
  });

  test('is rejected after its token was revoked or has expired', async () => {
    const revoked = await server.token('4343');
    assert.deepEqual(
      (await repeat('/jobs/', revoked)).map(({ status }) => status),
      [200, 200, 200],
    );
    // By another process, which does not tell the server about it.
    await runBursar(['token', 'revoke', await tokenIdOf('4343'), '--reason', 'because of a test'], server.environment);
    assert.equal((await get('/jobs/', revoked)).status, 401);

    const short = await server.token('4444');
    // On a busy machine the reads may take longer than the token is valid.
    for (let validMs = 1000, isOver = false; !isOver; validMs *= 3) {
      const expiresAt = Date.now() + validMs;
      await queryDatabase(server.data, "update tokens set expires_at = ? where user_id = '4444'", [expiresAt]);
      const statuses = (await repeat('/jobs/', short)).map(({ status }) => status);
      if (Date.now() >= expiresAt) continue;
      assert.deepEqual(statuses, [200, 200, 200]);
      await sleep(Math.max(0, expiresAt - Date.now()));
      assert.equal((await get('/jobs/', short)).status, 401);
      isOver = true;
    }
  });

  test('counts against the rate limits', async () => {
    const token = await server.token('4545');
    const statuses: number[] = [];
    for (let n = 0; n < 105; n++) statuses.push((await get('/jobs/', token)).status);
    assert.deepEqual(new Set(statuses.slice(0, 100)), new Set([200]));
    assert.equal(statuses.at(-1), 429);
  });
});

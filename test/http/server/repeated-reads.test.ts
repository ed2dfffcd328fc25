import assert from 'node:assert/strict';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, callerOf, type Job } from '../../support/api.ts';
import { queryDatabase } from '../../support/database.ts';
import { jobPath } from '../../support/jobs.ts';
import { logLines } from '../../support/logs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

interface Said {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

// The same question again and again, on one connection: from the second time on it is answered without being worked on.
describe('a read that is repeated on a connection', () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let server: TestServer;
  let me: Caller;
  let job: Job;

  before(async () => {
    const config = { ...shippedConfig(), limits: { windowSeconds: 3600, userRequests: 500, tokenRequests: 100 } };
    server = await startServer({ config });
    me = callerOf(server.url, server.userToken);
    job = (await me.submit('/jobs/hpc_one/', { command: 'true' })).body;
    await me.finished(job);
  });
  after(async () => {
    agent.destroy();
    await server.dispose();
  });

  const get = (path: string, token: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<Said>((resolve, reject) => {
      const sent = request(`${server.url}${path}`, {
        agent,
        method,
        headers: { authorization: `Bearer ${token}`, ...headers },
      });
      sent.once('error', reject).once('response', async (answer) => {
        let text = '';
        for await (const chunk of answer.setEncoding('utf8')) text += chunk;
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text });
      });
      sent.end();
    });
  const repeat = async (path: string, token: string, headers?: Record<string, string>) => {
    const answers = [await get(path, token, headers), await get(path, token, headers), await get(path, token, headers)];
    return answers as [Said, Said, Said];
  };
  const tokenIdOf = async (user: string) => {
    const { stdout } = await server.bursar('token', 'list', '--user', user, '--json');
    return String((JSON.parse(stdout) as { id: number }[]).at(-1)?.id);
  };

  test('has the same answer, but for its own identifier and what is left of the limit', async () => {
    for (const path of [jobPath(job), '/jobs/', '/jobs/?limit=1', '/quotas/', '/quotas/hpc_one/proj_hpc_one_01/']) {
      const [first, ...others] = await repeat(path, server.userToken);
      const fixed = ({ status, headers, text }: Said) => {
        const { date: _date, 'x-request-id': _id, ratelimit: _left, ...rest } = headers;
        return { status, headers: rest, text };
      };
      assert.equal(first.status, 200);
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

  test('is logged and counted like any other', async () => {
    const count = async () =>
      Number(/requests_total\{method="GET",status="200"\} (\d+)/.exec((await me.get('/metrics')).text)?.[1]);
    const before = await count();
    const answers = await repeat('/jobs/', server.userToken, { 'x-request-id': 'again-and-again' });
    assert.deepEqual(
      answers.map(({ headers }) => headers['x-request-id']),
      Array(3).fill('again-and-again'),
    );
    assert.ok((await count()) >= before + 3);
    const lines = (await logLines(server)).filter(({ reqId }) => reqId === 'again-and-again');
    assert.equal(lines.length, 3);
  });

  test('tells of a change at once, whoever made it', async () => {
    await repeat('/jobs/', server.userToken);
    await repeat(jobPath(job), server.userToken);
    const changed = JSON.stringify({ ...job, title: 'changed' });
    await queryDatabase(server.data, 'update users set jobs_version = jobs_version + 1 where id = ?', [job.owner]);
    const write = `update jobs set public_json = ?, version = (select jobs_version from users where id = jobs.owner)
                   where job_id = ?`;
    await queryDatabase(server.data, write, [changed, job.job_id]);
    assert.equal((await get(jobPath(job), server.userToken)).text, changed);
    assert.equal((await get('/jobs/', server.userToken)).text, `[${changed}]`);
    await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(JSON.parse((await get('/jobs/', server.userToken)).text).length, 2);
  });

  test('is for who asked it first: the next speaker on the connection has their own answer, or none', async () => {
    const other = await server.token('4242');
    await repeat('/jobs/', server.userToken);
    assert.equal((await get('/jobs/', other)).text, '[]');
    assert.equal((await get(jobPath(job), other)).status, 404);
    assert.equal((await get('/jobs/', 'nobody')).status, 401);
    assert.equal((await get('/jobs/', server.userToken, {}, 'HEAD')).text, '');
    assert.equal((await get('/jobs/', server.userToken, {}, 'DELETE')).status, 405);
  });

  test('is of its own caller, also where another one speaks before it is answered', async () => {
    const other = await server.token('4646');
    const text = (path: string, token: string, more = '') =>
      `GET ${path} HTTP/1.1\r\nHost: bursar\r\nAuthorization: Bearer ${token}\r\n${more}\r\n`;
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(text(jobPath(job), server.userToken) + text('/jobs/', other, 'Connection: close\r\n'));
    let answers = '';
    for await (const chunk of socket.setEncoding('utf8')) answers += chunk;
    assert.deepEqual(answers.match(/HTTP\/1.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200']);
    assert.equal((await get('/jobs/', other)).text, '[]');
    assert.equal((await get(jobPath(job), other)).status, 404);
  });

  test('is refused once its token is revoked, or has expired', async () => {
    const revoked = await server.token('4343');
    assert.deepEqual(
      (await repeat('/jobs/', revoked)).map(({ status }) => status),
      [200, 200, 200],
    );
    await server.bursar('token', 'revoke', await tokenIdOf('4343'));
    assert.equal((await get('/jobs/', revoked)).status, 401);

    const short = await server.token('4444');
    const until = Date.now() + 5000;
    await queryDatabase(server.data, "update tokens set expires_at = ? where user_id = '4444'", [until]);
    assert.deepEqual(
      (await repeat('/jobs/', short)).map(({ status }) => status),
      [200, 200, 200],
    );
    await sleep(Math.max(0, until - Date.now()));
    assert.equal((await get('/jobs/', short)).status, 401);
  });

  test('counts for the limits', async () => {
    const token = await server.token('4545');
    const statuses: number[] = [];
    for (let n = 0; n < 105; n++) statuses.push((await get('/jobs/', token)).status);
    assert.deepEqual(new Set(statuses.slice(0, 100)), new Set([200]));
    assert.equal(statuses.at(-1), 429);
  });

  /** What a connection is told that sends these pieces one after the other, whatever it is told meanwhile. */
  const converse = async (pieces: readonly string[], isOver: (said: string) => boolean) => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      .setNoDelay()
      .setEncoding('latin1');
    let said = '';
    socket.on('data', (text) => {
      said += text;
    });
    for (const piece of pieces) {
      socket.write(piece, 'latin1');
      await sleep(50);
    }
    await until('the last answer', () => isOver(said) || undefined).finally(() => socket.destroy());
    return said;
  };
  const statusesOf = (said: string) => said.match(/HTTP\/1.1 \d+/g)?.map((line) => line.slice(-3));
  const question = (path: string, token: string, method = 'GET', ...more: string[]) =>
    [`${method} ${path} HTTP/1.1`, 'Host: bursar', `Authorization: Bearer ${token}`, ...more, '', ''].join('\r\n');

  test('is a question only where a request begins', async () => {
    const token = await server.token('4747');
    const ask = question('/jobs/', token);
    const last = question('/jobs/hpc_one/proj_hpc_one_01/none/', token);
    const end = (said: string) => statusesOf(said)?.includes('404') === true;
    const plain = await converse([ask, ask, ask, last], end);
    assert.deepEqual(statusesOf(plain), ['200', '200', '200', '404']);

    const header = `GET /livez HTTP/1.1\r\nX-Rest: `;
    const inHead = await converse([ask, ask, header, ask, last], end);
    assert.deepEqual(statusesOf(inHead), ['200', '200', '200', '404']);
    assert.doesNotMatch(inHead.split('HTTP/1.1 ')[3] ?? '', /\[\]/, 'the third is that of /livez');

    const length = `Content-Length: ${ask.length * 2}`;
    const inBody = await converse([ask, question('/jobs/', token, 'DELETE', length), ask, ask, ask, last], end);
    assert.deepEqual(statusesOf(inBody), ['200', '405', '200', '404']);
    const chunked = question('/jobs/', token, 'DELETE', 'Transfer-Encoding: chunked');
    const size = `${ask.length.toString(16)}\r\n`;
    const inChunk = await converse([ask, chunked + size, ask, '\r\n0\r\n\r\n', ask, last], end);
    assert.deepEqual(statusesOf(inChunk), ['200', '405', '200', '404']);
  });

  test('waits for the answers before it, and for whoever does not fetch them', async () => {
    const token = await server.token('4848');
    const ask = question('/jobs/', token);
    const other = question('/quotas/', token);
    const said = await converse(
      [ask, ask + other + ask, other, other + ask, ask],
      (text) => statusesOf(text)?.length === 8,
    );
    const left = [...said.matchAll(/^ratelimit: .*r=(\d+)/gm)].map(([, rest]) => Number(rest));
    assert.deepEqual(
      left,
      left.map((_, index) => Number(left[0]) - index),
    );
    const lists = said.split('HTTP/1.1 200').map((answer) => answer.endsWith('[]'));
    assert.deepEqual(lists.slice(1), [true, true, false, true, false, false, true, true]);
  });
});

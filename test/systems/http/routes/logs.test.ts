import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import type { Problem } from '../../../support/contract.ts';
import { queryDatabase } from '../../../support/database.ts';
import { cancelJob, jobPath, releaseJob, waitForGoScript, waitForStage } from '../../../support/jobs.ts';
import { readMetric } from '../../../support/metrics.ts';
import { parseSse } from '../../../support/parse-sse.ts';
import { freePorts } from '../../../support/ports.ts';
import { findExample } from '../../../support/readme.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { shippedConfig } from '../../../support/shipped-config.ts';
import { until } from '../../../support/until.ts';

let server: ServerProcess;
let me: Caller;

before(async () => {
  // A server that is started again needs the same port.
  const [port] = await freePorts(1);
  server = await spawnServer({ config: shippedConfig(), env: { BURSAR_PORT: `${port}` } });
  me = createCaller(server.url, server.userToken);
});
after(() => server.dispose());

const submit = async (command: string) => (await me.submit('/jobs/hpc_one/', { command })).body;

function get(job: Job, query = '', headers: Record<string, string> = {}, signal?: AbortSignal) {
  return fetch(`${server.url}${jobPath(job)}log/${query}`, {
    headers: { authorization: `Bearer ${server.userToken}`, ...headers },
    ...(signal && { signal }),
  });
}

const events = { accept: 'text/event-stream' };
const textOf = (text: string) =>
  parseSse(text)
    .filter(({ event }) => event === 'message')
    .map(({ data }) => JSON.parse(data).text)
    .join('');

/** Reads a response in the background. `done` rejects if the response is aborted. */
function collect(response: Response) {
  let text = '';
  async function read() {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
  }
  return { done: read(), received: () => text };
}

/** Runs a program in the background. */
function run(command: string, ...args: string[]) {
  return watch(spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

/** Follows the log of a job by the Python example of the README. */
function followByReadme(job: Job) {
  const env = { ...process.env, TOKEN: server.userToken, JOB: jobPath(job).replace(/^\/jobs\/|\/$/g, '') };
  const example = findExample('python', 'iter_content', server.url);
  return watch(spawn('python3', ['-c', example], { env, stdio: ['ignore', 'pipe', 'inherit'] }));
}

function watch(child: ChildProcessByStdio<null, Readable, null>) {
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  return { output: () => output, exitCode: once(child, 'close').then(([code]) => code as number | null) };
}

const metric = (name: string) => readMetric(server.url, name);

/** The interval of polls while a log grows (`src/files/workspaces/local-reader.ts`). */
const minPollMs = 100;

const waitForFollowers = (count: number) =>
  until(`${count} followers`, async () => (await metric('bursar_log_followers')) === count || undefined);

/** Waits for polls of logs, of which the last but one is complete. Returns how many there were. */
async function waitForPolls(count: number): Promise<number> {
  const before = await metric('bursar_log_polls_total');
  return await until(`${count} polls`, async () => {
    const polls = (await metric('bursar_log_polls_total')) - before;
    return polls >= count ? polls : undefined;
  });
}

describe('the log of a job that has ended', () => {
  let job: Job;
  before(async () => {
    job = await me.waitUntilFinished(await submit("printf 'hello\\nw\\303\\266rld\\nno end'; echo oops >&2"));
  });
  const printed = 'hello\nwörld\nno end';

  test('is text: stdout unless stderr is requested', async () => {
    const response = await get(job);
    assert.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(await response.text(), printed);
    assert.equal(await (await get(job, '?stream=stderr')).text(), 'oops\n');
    assert.equal(await (await get(job, '?follow=1')).text(), printed);
  });

  test('can be read from any offset', async () => {
    for (const offset of [0, 6, 18]) {
      const rest = Buffer.from(printed).subarray(offset).toString();
      for (const follow of ['0', '1']) {
        assert.equal(await (await get(job, `?offset=${offset}&follow=${follow}`)).text(), rest);
      }
    }
    assert.equal(await (await get(job, '?offset=19')).text(), '');
    for (const offset of ['9007199254740993', '1e30', '-1', '0.5'])
      for (const follow of ['0', '1'])
        assert.equal((await get(job, `?offset=${offset}&follow=${follow}`)).status, 400, offset);
    const { code } = (await (await get(job, '?offset=-1')).json()) as { code: string };
    assert.equal(code, 'bad_request');
    const beyond = await get(job, '?offset=20');
    assert.deepEqual([beyond.status, ((await beyond.json()) as Problem).code], [416, 'range_not_satisfiable']);
  });

  test('tells its length by HEAD, so that a client can begin near its end', async () => {
    const job = await me.waitUntilFinished(await submit('printf 0123456789'));
    const lengthOf = async (query: string) =>
      (await me.send('HEAD', `${jobPath(job)}log/${query}`)).headers.get('content-length');
    assert.equal(await lengthOf(''), '10');
    assert.equal(await lengthOf('?offset=4'), '6');
    assert.equal(await lengthOf('?stream=stderr'), '0');
    assert.equal(await lengthOf('?follow=1'), null);
  });

  test('can be read as a stream of events that ends with `end`; a browser that reconnects gets 204', async () => {
    for (const query of ['', '?follow=1']) {
      const received = parseSse(await (await get(job, query, events)).text());
      assert.equal(received.map(({ data }) => JSON.parse(data).text ?? '').join(''), printed);
      assert.deepEqual(received.at(-1), { id: '19', event: 'end', data: '{"offset":19}' });
      assert.equal((await get(job, query, { ...events, 'last-event-id': '19' })).status, 204);
      const resumed = await get(job, query, { ...events, 'last-event-id': '6' });
      assert.equal(textOf(await resumed.text()), 'wörld\nno end');
    }
  });

  test('is 400 with an invalid offset or stream', async () => {
    for (const query of ['?offset=x', '?offset=-1', '?offset=1.5', '?stream=both', '?follow=yes']) {
      assert.equal((await get(job, query)).status, 400, query);
    }
    for (const id of ['x', '-1', '1e3', '']) {
      assert.equal((await get(job, '', { ...events, 'last-event-id': id })).status, 400, id);
    }
  });

  test('can be read by administrators, but not by other users', async () => {
    const admin = { authorization: `Bearer ${server.adminToken}` };
    const path = `/admin${jobPath(job)}log/`;
    assert.equal(await (await fetch(server.url + path, { headers: admin })).text(), printed);
    assert.equal((await me.get(path)).status, 403);
  });
});

describe('following a job', () => {
  test('streams its output immediately, from before its start until after its end', async () => {
    const job = await submit(`echo first; echo wrong >&2; ${waitForGoScript}; echo last`);
    const [text, sse, errors] = await Promise.all([
      get(job, '?follow=1'),
      get(job, '?follow=1', events),
      get(job, '?follow=1&stream=stderr'),
    ]);
    const reader = text.body?.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader?.read())?.value, 'first\n', 'it came while the job runs');
    releaseJob(server, job);
    assert.equal((await reader?.read())?.value, 'last\n');
    assert.equal((await reader?.read())?.done, true);
    assert.equal(textOf(await sse.text()), 'first\nlast\n');
    assert.equal(await errors.text(), 'wrong\n');
    assert.equal((await me.get<Job>(jobPath(job))).body.terminal_stage, true, 'it ended with the job');
  });

  test('splits no character and no line, for any writes of the job', async () => {
    const parts = ['\\303', '\\274b', 'er\\n\\360\\237', '\\231', '\\202\\n'];
    const steps = parts.map((part, n) => `printf '${part}'; until [ -e read.${n} ]; do sleep 0.02; done`);
    const job = await submit(steps.join('; '));
    const followed = collect(await get(job, '?follow=1', events));
    const workspace = join(server.data, 'workspaces', job.job_id);
    for (const [n, size] of [1, 3, 8, 9, 11].entries()) {
      const sizeOf = (file: string) => statSync(join(workspace, file), { throwIfNoEntry: false })?.size;
      await until(`part ${n} is written`, () => sizeOf('stdout') === size || undefined);
      await waitForPolls(2);
      writeFileSync(join(workspace, 'files', `read.${n}`), '');
    }
    await followed.done;
    const received = parseSse(followed.received());
    assert.deepEqual(
      received.map(({ data }) => JSON.parse(data).text),
      ['über\n', '🙂\n', undefined],
    );
    assert.deepEqual(
      received.map(({ id }) => id),
      ['6', '11', '11'],
    );
  });

  test('loses and repeats nothing when the client reconnects many times', async () => {
    const job = await submit('for i in $(seq 400); do echo "line $i ü"; sleep 0.01; done');
    let all = '';
    let last = '0';
    for (let drops = 0; ; drops += 1) {
      const controller = new AbortController();
      const response = await get(job, '?follow=1', { ...events, 'last-event-id': last }, controller.signal);
      const timer = setTimeout(() => controller.abort(), drops < 15 ? 100 + drops * 20 : 60_000);
      let text = '';
      try {
        for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString('latin1');
      } catch {
        // The test has aborted the connection.
      }
      clearTimeout(timer);
      const received = parseSse(Buffer.from(text, 'latin1').toString());
      all += received.map(({ data }) => JSON.parse(data).text ?? '').join('');
      last = received.at(-1)?.id ?? last;
      if (received.at(-1)?.event === 'end') break;
    }
    assert.equal(all, Array.from({ length: 400 }, (_, index) => `line ${index + 1} ü\n`).join(''));
  });

  test('polls the log once for many followers, who all get the same text', async () => {
    const job = await submit(`seq 1000; ${waitForGoScript}; seq 1000 2000`);
    await waitForStage(me, job, 'RUNNING');
    const followers = await Promise.all(Array.from({ length: 60 }, () => get(job, '?follow=1')));
    await waitForFollowers(60);
    assert.equal(await metric('bursar_followed_logs'), 1);
    const startedAt = performance.now();
    const polls = await waitForPolls(3);
    // A busy machine polls less often than this, never more often.
    const maxPolls = (performance.now() - startedAt) / minPollMs + 2;
    assert.ok(polls <= maxPolls, `${polls} polls for 60 followers`);
    releaseJob(server, job);
    const texts = new Set(await Promise.all(followers.map((follower) => follower.text())));
    assert.equal(texts.size, 1);
    assert.equal([...texts][0]?.split('\n').length, 2002);
    await waitForFollowers(0);
    assert.equal(await metric('bursar_followed_logs'), 0);
  });

  test('releases all resources when the client disconnects', async () => {
    const job = await submit(waitForGoScript);
    await waitForStage(me, job, 'RUNNING');
    for (const headers of [{}, events]) {
      const controller = new AbortController();
      await Promise.all(Array.from({ length: 5 }, () => get(job, '?follow=1', headers, controller.signal)));
      await waitForFollowers(5);
      controller.abort();
      await waitForFollowers(0);
      assert.equal(await metric('bursar_followed_logs'), 0);
    }
    releaseJob(server, job);
    await me.waitUntilFinished(job);
  });

  test('ends when the token is revoked', async () => {
    const job = await submit(`echo first; ${waitForGoScript}; echo last`);
    const token = await server.token('301330', { name: 'to be revoked' });
    const followed = collect(await get(job, '?follow=1', { authorization: `Bearer ${token}` }));
    const aborted = assert.rejects(followed.done);
    await until('the first line was received', () => followed.received() || undefined);
    const { stdout } = await server.bursar('token', 'list', '--user', '301330');
    const [, id = ''] = /^\s*(\S+).*to be revoked/m.exec(stdout) ?? [];
    await server.bursar('token', 'revoke', id, '--reason', 'because of a test');
    releaseJob(server, job);
    await aborted;
    assert.equal(followed.received(), 'first\n');
  });

  test('ends when the administrator who follows loses the role, although the token is valid', async () => {
    const job = await submit(`echo first; ${waitForGoScript}; echo last`);
    const token = await server.token('300777', { admin: true });
    const response = await fetch(`${server.url}/admin${jobPath(job)}log/?follow=1`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const followed = collect(response);
    const aborted = assert.rejects(followed.done);
    await until('the first line was received', () => followed.received() || undefined);
    await queryDatabase(server.data, 'update users set role = ? where id = ?', ['user', '300777']);
    releaseJob(server, job);
    await aborted;
    assert.equal(followed.received(), 'first\n');
  });

  test('from far beyond the end does not keep the output from other followers', async () => {
    const job = await submit(`echo first; ${waitForGoScript}; echo second; while [ ! -e end ]; do sleep 0.05; done`);
    await waitForStage(me, job, 'RUNNING');
    const beyond = collect(await get(job, '?follow=1&offset=1000000000'));
    await waitForFollowers(1);
    const followed = collect(await get(job, '?follow=1'));
    await until('the first line was received', () => followed.received() || undefined);
    releaseJob(server, job);
    await until('the second line was received', () => followed.received().includes('second') || undefined);
    writeFileSync(join(server.data, 'workspaces', job.job_id, 'files', 'end'), '');
    await Promise.all([beyond.done, followed.done]);
    assert.deepEqual([beyond.received(), followed.received()], ['', 'first\nsecond\n']);
  });

  test('returns a large log completely', async () => {
    const job = await submit('head -c 9000000 /dev/zero | tr "\\0" x');
    assert.equal((await (await get(job, '?follow=1')).text()).length, 9_000_000);
    assert.equal((await (await get(job)).text()).length, 9_000_000);
    const text = textOf(await (await get(job, '', events)).text());
    assert.equal(text.length, 9_000_000);
  });

  test('ends when the job is cancelled and deleted', async () => {
    const job = await submit(`echo first; ${waitForGoScript}`);
    const followed = collect(await get(job, '?follow=1'));
    await until('the first line was received', () => followed.received() || undefined);
    await cancelJob(me, job);
    assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
    await followed.done;
    assert.equal(followed.received(), 'first\n');
  });

  test('is cut off when the server stops, unlike at the end of the job, and can be resumed on the next server', async () => {
    const job = await submit(`echo first; ${waitForGoScript}; echo last`);
    const text = collect(await get(job, '?follow=1'));
    const curl = run(
      'curl',
      '-sN',
      '-H',
      `Authorization: Bearer ${server.userToken}`,
      `${server.url}${jobPath(job)}log/?follow=1`,
    );
    const sse = collect(await get(job, '?follow=1', events));
    await until(
      'both have received the first line',
      () => (text.received() && sse.received().includes('first')) || undefined,
    );
    const python = followByReadme(job);
    await until('all have received the first line', () => (curl.output() && python.output()) || undefined);
    const [exitCode] = await Promise.all([server.stop(), assert.rejects(text.done), sse.done]);
    assert.equal(exitCode, 0);
    assert.equal(await curl.exitCode, 18, 'the exit code of curl for a partial transfer');
    assert.equal(curl.output(), 'first\n');
    const receivedText = text.received();
    assert.equal(receivedText, 'first\n');
    const received = parseSse(sse.received());
    assert.equal(received.at(-1)?.event, 'message', 'no end event, because the job has not ended');
    const { userToken, adminToken, data } = server;
    const { port } = new URL(server.url);
    server = {
      ...(await spawnServer({ data, config: shippedConfig(), env: { BURSAR_PORT: port } })),
      userToken,
      adminToken,
    };
    me = createCaller(server.url, userToken);
    releaseJob(server, job);
    assert.equal(await (await get(job, `?follow=1&offset=${receivedText.length}`)).text(), 'last\n');
    const resumed = await get(job, '?follow=1', { ...events, 'last-event-id': received.at(-1)?.id ?? '' });
    assert.ok(resumed.status === 204 || textOf(await resumed.text()) === 'last\n');
    assert.equal(await python.exitCode, 0, python.output());
    assert.match(python.output(), /^first\nlast\n/);
  });
});

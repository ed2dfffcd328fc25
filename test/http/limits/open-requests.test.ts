import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import { type ApiResponse, createCaller, type Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { readMetric } from '../../support/metrics.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

// Two open requests of each kind for a user, three for all users.

const [userA, userB] = ['302001', '302002'] as const;
let server: TestServer;
let tokens: Record<string, string>;
let jobs: Record<string, Job>;
const sockets: Socket[] = [];

before(async () => {
  const limits = { downloads: 2, logFollowers: 2, eventListeners: 2 };
  const maxOpenRequests = { upload: 3, download: 3, log_follower: 3, event_listener: 3 };
  server = await startServer({ config: { ...shippedConfig(), limits }, tuning: { maxOpenRequests } });
  tokens = { [userA]: await server.token(userA), [userB]: await server.token(userB) };
  const entries = Object.entries(tokens).map(async ([user, token]) => {
    const me = createCaller(server.url, token);
    const command = `head -c 64000000 /dev/zero > large; ${waitForGoScript}`;
    const { body } = await me.submit('/jobs/hpc_one/', { command });
    await waitForStage(me, body, 'RUNNING');
    await until('the file is complete', async () => {
      const { body: files } = await me.get<{ path: string; size: number }[]>(filesPath(body));
      return files.find(({ size }) => size === 64_000_000);
    });
    return [user, body] as const;
  });
  jobs = Object.fromEntries(await Promise.all(entries));
});
after(async () => {
  for (const job of Object.values(jobs)) releaseJob(server, job);
  await server.dispose();
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

const filesPath = (job: Job) => jobPath(job).replace('/jobs/', '/files/');

/** Sends a request and reads nothing. */
async function open(user: string, path: string): Promise<void> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname).pause();
  socket.on('error', () => undefined);
  sockets.push(socket);
  await once(socket, 'connect');
  socket.write(formatRequestHead({ path, headers: [bearerHeader(tokens[user] ?? '')] }));
}

const kinds: [kind: string, path: (job: Job) => string, code: string, advice: RegExp][] = [
  ['download', (job) => `${filesPath(job)}large`, 'too_many_requests', /2 open downloads.*Wait/],
  ['log_follower', (job) => `${jobPath(job)}log/?follow=1`, 'too_many_listeners', /2 open .* log.*Close/],
  ['event_listener', () => '/events/?after=latest', 'too_many_listeners', /2 open event streams.*Close/],
];

for (const [kind, pathOf, code, advice] of kinds) {
  describe(`open requests of the kind ${kind}`, () => {
    const openCount = () => readMetric(server.url, `bursar_open_requests{kind="${kind}"}`);
    const refusals = () => readMetric(server.url, `bursar_refused_requests_total{kind="${kind}"}`);
    const requestBy = (user: string): Promise<ApiResponse> =>
      createCaller(server.url, tokens[user] ?? '').get(pathOf(jobs[user] as Job));
    const openBy = (user: string) => open(user, pathOf(jobs[user] as Job));

    test('are limited by user and in all, until they are closed', async () => {
      await Promise.all([openBy(userA), openBy(userA)]);
      await until('two are open', async () => (await openCount()) === 2 || undefined);
      const ofUser = await requestBy(userA);
      assertProblem(ofUser, { status: 429, code, message: advice });
      assert.match(ofUser.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      await openBy(userB);
      await until('three are open', async () => (await openCount()) === 3 || undefined);
      const inAll = await requestBy(userB);
      assertProblem(inAll, { status: 503, code: 'server_busy', message: /3 open .* all users.*Try again/ });
      assert.match(inAll.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      assert.equal(await refusals(), 2);
      assert.equal((await createCaller(server.url, tokens[userA] ?? '').get('/jobs/')).status, 200);
      for (const socket of sockets) socket.destroy();
      await until('none is open', async () => (await openCount()) === 0 || undefined);
      await Promise.all([openBy(userA), openBy(userB)]);
      await until('new ones are accepted', async () => (await openCount()) === 2 || undefined);
      for (const socket of sockets) socket.destroy();
      await until('none is open', async () => (await openCount()) === 0 || undefined);
    });
  });
}

describe('open connections', () => {
  let small: TestServer;
  before(async () => {
    const limits = { connections: 10 };
    small = await startServer({ config: { ...shippedConfig(), limits } });
  });
  after(() => small.dispose());

  /** Opens a connection and sends a request. */
  async function openFrom(localAddress: string): Promise<{ received: () => string; closed: Promise<unknown> }> {
    const { hostname, port } = new URL(small.url);
    const socket = connect({ host: hostname, port: Number(port), localAddress });
    sockets.push(socket);
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await once(socket, 'connect');
    socket.write(formatRequestHead({ path: '/livez' }));
    return { received: () => text, closed: once(socket, 'close') };
  }

  const waitUntilAccepted = () =>
    until('connections are accepted again', async () => {
      // A connection that stays open would count in the next test.
      const headers = { connection: 'close' };
      const response = await fetch(`${small.url}/livez`, { headers }).catch(() => undefined);
      return response?.status === 200 || undefined;
    });

  test('that are refused are closed at once if there are many of them', async () => {
    for (let count = 0; count < 5; count += 1) await openFrom('127.0.0.3');
    // They send nothing, so that the server waits for them before it closes them.
    const { hostname, port } = new URL(small.url);
    let answered = 0;
    let unanswered = 0;
    for (let count = 0; count < 150; count += 1) {
      const options = { host: hostname, port: Number(port), localAddress: '127.0.0.3', allowHalfOpen: true };
      const socket = connect(options).on('error', () => undefined);
      let received = 0;
      socket.on('data', (chunk) => {
        received += chunk.length;
      });
      const onEnd = () => {
        socket.off('end', onEnd).off('close', onEnd);
        if (received === 0) unanswered += 1;
        else answered += 1;
      };
      sockets.push(socket.on('end', onEnd).on('close', onEnd));
    }
    await until('all are closed', () => answered + unanswered === 150 || undefined);
    assert.ok(answered > 0 && unanswered > 0, `${answered} got a response, ${unanswered} got none`);
    for (const socket of sockets) socket.destroy();
    await waitUntilAccepted();
  });

  test('are limited by address and in all, with a response that says so', async () => {
    for (let count = 0; count < 5; count += 1) {
      const { received } = await openFrom('127.0.0.1');
      await until('the response was received', () => received().endsWith('{"status":"ok"}') || undefined);
    }
    const ofAddress = await openFrom('127.0.0.1');
    await ofAddress.closed;
    assert.match(ofAddress.received(), /^HTTP\/1\.1 429 .*retry-after: \d+.*"too_many_requests".*Close some/s);
    for (let count = 0; count < 5; count += 1) await openFrom('127.0.0.2');
    const inAll = await openFrom('127.0.0.3');
    await inAll.closed;
    for (const { received } of [ofAddress, inAll]) assert.doesNotMatch(received(), / 200 /, 'it was not carried out');
    assert.match(inAll.received(), /^HTTP\/1\.1 503 .*retry-after: \d+.*"server_busy".*Try again/s);
    for (const socket of sockets) socket.destroy();
    await waitUntilAccepted();
    assert.equal(
      (await readMetric(small.url, 'bursar_connections_cut_total{reason="too_many_connections"}')) >= 2,
      true,
    );
  });
});

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { type EventStream, openEventStream, type PublicEvent } from '../../support/event-stream.ts';
import {
  jobPath,
  releaseJob,
  runThroughAllStages,
  submitShellLine,
  waitForGoScript,
  waitForStage,
} from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

// GET /events/ as server-sent events.

let server: ServerProcess;
let me: Caller;
const streams: EventStream[] = [];

before(async () => {
  const events = { keepDays: 90, heartbeatSeconds: 0.2, checkSeconds: 0.2, listenersPerUser: 5 };
  server = await spawnServer({ config: { ...shippedConfig(), events } });
  me = createCaller(server.url, server.userToken);
});
after(() => server.dispose());

async function listen(path = '/events/', headers = {}, token = server.userToken): Promise<EventStream> {
  const stream = await openEventStream(server.url, token, { path, headers });
  streams.push(stream);
  return stream;
}

/** Lets go of everything that was opened, so that each test starts with none. */
async function closeAll(): Promise<void> {
  for (const stream of streams) stream.disconnect();
  await Promise.all(streams.splice(0).map(({ closed: ended }) => ended));
}

const lastId = async (caller = me) =>
  (await caller.send('GET', '/events/?after=latest', { accept: 'application/json' })).body as { next: number };

describe('a stream', () => {
  test('has the headers of one, and begins by telling when to come again', async () => {
    const stream = await listen('/events/?after=latest');
    assert.equal(stream.status, 200);
    assert.equal(stream.headers['content-type'], 'text/event-stream');
    assert.equal(stream.headers['cache-control'], 'no-store');
    await until('the first frame', () => stream.frames()[0]);
    assert.match(stream.frames()[0]?.retry ?? '', /^\d+$/);
    await closeAll();
  });

  test('tells every stage of a job as it happens, with the job as it was then', async () => {
    const stream = await listen('/events/?after=latest');
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript, {
      runtime: '2.0',
      title: 'Told',
    });
    await stream.waitForEvents(3);
    releaseJob(server, job);
    const events = await stream.waitForEvents(4);
    assert.deepEqual(
      events.map(({ type, job: then }) => [type, then?.stage, then?.terminal_stage]),
      [
        ['job.accepted', 'QUEUED', false],
        ['job.queued', 'QUEUED', false],
        ['job.running', 'RUNNING', false],
        ['job.ended', 'SUCCESSFUL', true],
      ],
    );
    for (const { data, at } of events) {
      assert.deepEqual([data.hpc, data.project_name, data.job_id], ['hpc_one', 'proj_hpc_one_01', job.job_id]);
      assert.equal(new Date(at).toISOString(), at);
    }
    assert.deepEqual(events[0]?.job, job);
    assert.deepEqual(events[3]?.job, (await me.get<Job>(jobPath(job))).body);
    assert.deepEqual([events[3]?.data.outcome, events[3]?.data.exit_code], ['succeeded', 0]);
    assert.match(stream.text(), /"runtime":2\.0[,}]/, 'floats carry a fraction');
    await closeAll();
  });

  test('names each event by its id and its type, in frames of one line each', async () => {
    const stream = await listen();
    await stream.waitForEvents(4);
    const frames = stream.frames().filter(({ data }) => data !== undefined);
    for (const { id, event, data = '' } of frames) {
      const told = JSON.parse(data) as PublicEvent;
      assert.deepEqual([id, event], [String(told.id), told.type]);
      assert.doesNotMatch(data, /\n/);
    }
    assert.deepEqual(
      frames.map(({ id }) => Number(id)),
      frames.map((_frame, index) => index + 1),
      'numbers have no gaps',
    );
    await closeAll();
  });

  test('shows that it is alive while there is nothing to tell', async () => {
    const stream = await listen('/events/?after=latest');
    await until('three heartbeats', () => (stream.commentCount() >= 3 ? true : undefined));
    assert.deepEqual(stream.events(), []);
    await closeAll();
  });

  test('tells what the command line beside the server has written', async () => {
    const stream = await listen('/events/?after=latest');
    const { next } = await lastId();
    const path = '/jobs/hpc_two/proj_hpc_two_02/';
    const job = await runThroughAllStages(server, me, 'sleep 1', { path, payload: { runtime: '0.1' } });
    await stream.waitForEvents(4);
    // What is left is taken away, so what was used is all there is.
    const taken = String((await me.quota('hpc_two', 'proj_hpc_two_02')).time_left);
    const project = 'hpc_two/proj_hpc_two_02';
    await server.bursar('grant', project, '--user', job.owner, '--time', taken, '--withdraw', '--reason', 'for a test');
    const events = await stream.waitForEvents(5);
    const told = events.find(({ type }) => type === 'quota.threshold');
    assert.ok(told, JSON.stringify(events.slice(4)));
    assert.deepEqual([told.job, told.data.project_name, told.data.resource], [null, 'proj_hpc_two_02', 'time']);
    assert.ok(told.id > next);
    await closeAll();
  });
});

describe('going on', () => {
  test('after an event gives what follows it, by query and by header, and the header wins', async () => {
    const { next } = await lastId();
    for (const [path, headers] of [
      [`/events/?after=${next - 2}`, {}],
      ['/events/', { 'last-event-id': String(next - 2) }],
      ['/events/?after=1', { 'last-event-id': String(next - 2) }],
    ] as const) {
      const stream = await listen(path, headers);
      const events = await stream.waitForEvents(2);
      assert.deepEqual(
        events.map(({ id }) => id),
        [next - 1, next],
      );
    }
    await closeAll();
  });

  test('after what is no event, or is none yet, is refused with the reason', async () => {
    const { next } = await lastId();
    for (const position of ['x', '-1', '1.5', '9'.repeat(20), String(next + 1)]) {
      const { status, body } = await me.send('GET', `/events/?after=${position}`);
      assert.deepEqual([position, status, (body as { code: string }).code], [position, 400, 'bad_request']);
    }
  });
});

describe('whose events', () => {
  test('are told: only one’s own, though everybody counts from one', async () => {
    const token = await server.token('303001');
    const other = createCaller(server.url, token);
    const stream = await listen('/events/', {}, token);
    await runThroughAllStages(server, me);
    await runThroughAllStages(server, other);
    const events = await stream.waitForEvents(4);
    assert.deepEqual(
      events.map(({ id, job }) => [id, job?.owner]),
      [1, 2, 3, 4].map((id) => [id, '303001']),
    );
    await closeAll();
  });

  test('administrators may follow those of any user, and others may not', async () => {
    const stream = await listen('/admin/events/303001/', {}, server.adminToken);
    assert.equal((await stream.waitForEvents(4))[0]?.job?.owner, '303001');
    await closeAll();
    assert.equal((await me.send('GET', '/admin/events/303001/')).status, 403);
    const admin = createCaller(server.url, server.adminToken);
    assert.equal((await admin.send('GET', '/admin/events/999999/')).status, 404);
  });

  test('nothing more is told once the token is revoked', async () => {
    const token = await server.token('303002', { name: 'to be revoked' });
    const keeper = createCaller(server.url, await server.token('303002', { name: 'stays' }));
    const stream = await listen('/events/', {}, token);
    const list = JSON.parse((await server.bursar('token', 'list', '--user', '303002', '--json')).stdout);
    const [{ id }] = list.filter(({ name }: { name: string }) => name === 'to be revoked');
    await server.bursar('token', 'revoke', String(id));
    await keeper.waitUntilFinished((await submitShellLine(keeper, '/jobs/hpc_one/', 'true')).body);
    await stream.closed;
    assert.deepEqual(stream.events(), []);
    assert.equal((await openEventStream(server.url, token)).status, 401);
  });

  test('no token, no stream; too many streams of one user are refused, and others have theirs', async () => {
    assert.equal((await openEventStream(server.url, 'bursar_nobody')).status, 401);
    for (let n = 0; n < 5; n++) assert.equal((await listen('/events/?after=latest')).status, 200);
    const refused = await me.send('GET', '/events/');
    assert.deepEqual([refused.status, (refused.body as { code: string }).code], [429, 'too_many_listeners']);
    assert.equal((await listen('/events/', {}, server.adminToken)).status, 200);
    await closeAll();
    await until('they are let in again', async () => {
      const stream = await listen('/events/?after=latest');
      return stream.status === 200 ? true : undefined;
    });
    await closeAll();
  });
});

describe('a server that stops', () => {
  test('ends its streams at once, and what happens meanwhile is told after it', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript);
    await waitForStage(me, job, 'RUNNING');
    const { next } = await lastId();
    const stream = await listen(`/events/?after=${next}`);
    assert.equal(await server.stop(), 0);
    await stream.closed;
    releaseJob(server, job);
    const events = { keepDays: 90, heartbeatSeconds: 0.2, checkSeconds: 0.2, listenersPerUser: 5 };
    server = await spawnServer({ data: server.data, config: { ...shippedConfig(), events } });
    const token = await server.token(job.owner);
    const again = await openEventStream(server.url, token, { headers: { 'last-event-id': String(next) } });
    const [ended] = await again.waitForEvents(1);
    assert.deepEqual([ended?.id, ended?.type, ended?.job?.job_id], [next + 1, 'job.ended', job.job_id]);
    again.disconnect();
    await assertCleanLog(server, [token]);
  });
});

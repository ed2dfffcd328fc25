import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { type EventStream, openEventStream, type PublicEvent } from '../../support/event-stream.ts';
import { jobPath, releaseJob, runThroughAllStages, submitShellLine, waitForGoScript } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

// GET /events/ as server-sent events.

let server: TestServer;
let me: Caller;
const streams: EventStream[] = [];

before(async () => {
  const tuning = { heartbeatIntervalMs: 200, eventIntervalMs: 200 };
  server = await startServer({ config: { ...shippedConfig(), limits: { eventListeners: 5 } }, tuning });
  me = createCaller(server.url, server.userToken);
});
after(() => server.dispose());

async function openStream(path = '/events/', headers = {}, token = server.userToken): Promise<EventStream> {
  const stream = await openEventStream(server.url, token, { path, headers });
  streams.push(stream);
  return stream;
}

/** Closes all streams, so that each test starts without open streams. */
async function closeAll(): Promise<void> {
  for (const stream of streams) stream.disconnect();
  await Promise.all(streams.splice(0).map(({ closed: ended }) => ended));
}

const getLastId = async (caller = me) =>
  (await caller.send('GET', '/events/?after=latest', { accept: 'application/json' })).body as { next: number };

describe('an event stream', () => {
  test('has the headers of server-sent events, and begins with a retry delay', async () => {
    const stream = await openStream('/events/?after=latest');
    assert.equal(stream.status, 200);
    assert.equal(stream.headers['content-type'], 'text/event-stream');
    assert.equal(stream.headers['cache-control'], 'no-store');
    await until('the first frame', () => stream.frames()[0]);
    assert.match(stream.frames()[0]?.retry ?? '', /^\d+$/);
    await closeAll();
  });

  test('sends each transition of a job, with the job at that time', async () => {
    const stream = await openStream('/events/?after=latest');
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript, {
      runtime: '2.0',
      title: 'Title',
    });
    await stream.waitForEvents(3);
    releaseJob(server, job);
    const events = await stream.waitForEvents(4);
    assert.deepEqual(
      events.map(({ type, job: jobThen }) => [type, jobThen?.stage, jobThen?.terminal_stage]),
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

  test('sends the id, the type and one line of data in each frame', async () => {
    const stream = await openStream();
    await stream.waitForEvents(4);
    const frames = stream.frames().filter(({ data }) => data !== undefined);
    for (const { id, event, data = '' } of frames) {
      const parsed = JSON.parse(data) as PublicEvent;
      assert.deepEqual([id, event], [String(parsed.id), parsed.type]);
      assert.doesNotMatch(data, /\n/);
    }
    assert.deepEqual(
      frames.map(({ id }) => Number(id)),
      frames.map((_frame, index) => index + 1),
      'event numbers have no gaps',
    );
    await closeAll();
  });

  test('sends heartbeats while there are no events', async () => {
    const stream = await openStream('/events/?after=latest');
    await until('three heartbeats', () => (stream.commentCount() >= 3 ? true : undefined));
    assert.deepEqual(stream.events(), []);
    await closeAll();
  });
});

describe('resuming a stream', () => {
  test('sends the events after the given id; Last-Event-ID overrides the query parameter', async () => {
    const { next } = await getLastId();
    for (const [path, headers] of [
      [`/events/?after=${next - 2}`, {}],
      ['/events/', { 'last-event-id': String(next - 2) }],
      ['/events/?after=1', { 'last-event-id': String(next - 2) }],
    ] as const) {
      const stream = await openStream(path, headers);
      const events = await stream.waitForEvents(2);
      assert.deepEqual(
        events.map(({ id }) => id),
        [next - 1, next],
      );
    }
    await closeAll();
  });

  test('is rejected for an id that is invalid or does not exist yet', async () => {
    const { next } = await getLastId();
    for (const position of ['x', '-1', '1.5', '9'.repeat(20), String(next + 1)]) {
      const { status, body } = await me.send('GET', `/events/?after=${position}`);
      assert.deepEqual([position, status, (body as { code: string }).code], [position, 400, 'bad_request']);
    }
  });
});

describe('access to events', () => {
  test('is limited to the user’s own events, which each user numbers from 1', async () => {
    const token = await server.token('303001');
    const other = createCaller(server.url, token);
    const stream = await openStream('/events/', {}, token);
    await runThroughAllStages(server, me);
    await runThroughAllStages(server, other);
    const events = await stream.waitForEvents(4);
    assert.deepEqual(
      events.map(({ id, job }) => [id, job?.owner]),
      [1, 2, 3, 4].map((id) => [id, '303001']),
    );
    await closeAll();
  });

  test('administrators can follow the events of any user, other users cannot', async () => {
    const stream = await openStream('/admin/events/303001/', {}, server.adminToken);
    assert.equal((await stream.waitForEvents(4))[0]?.job?.owner, '303001');
    await closeAll();
    assert.equal((await me.send('GET', '/admin/events/303001/')).status, 403);
    const admin = createCaller(server.url, server.adminToken);
    assert.equal((await admin.send('GET', '/admin/events/999999/')).status, 404);
  });

  test('a stream ends without further events when its token is revoked', async () => {
    const token = await server.token('303002', { name: 'to be revoked' });
    const sameUser = createCaller(server.url, await server.token('303002', { name: 'stays' }));
    const stream = await openStream('/events/', {}, token);
    const list = JSON.parse((await server.bursar('token', 'list', '--user', '303002', '--json')).stdout);
    const [{ id }] = list.filter(({ name }: { name: string }) => name === 'to be revoked');
    await server.bursar('token', 'revoke', String(id), '--reason', 'because of a test');
    await sameUser.waitUntilFinished((await submitShellLine(sameUser, '/jobs/hpc_one/', 'true')).body);
    await stream.closed;
    assert.deepEqual(stream.events(), []);
    assert.equal((await openEventStream(server.url, token)).status, 401);
  });

  test('rejects an invalid token, and too many streams of one user but not those of others', async () => {
    assert.equal((await openEventStream(server.url, 'bursar_nobody')).status, 401);
    for (let n = 0; n < 5; n++) assert.equal((await openStream('/events/?after=latest')).status, 200);
    const refused = await me.send('GET', '/events/');
    assert.deepEqual([refused.status, (refused.body as { code: string }).code], [429, 'too_many_listeners']);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.equal((await openStream('/events/', {}, server.adminToken)).status, 200);
    await closeAll();
    await until('a new stream is accepted', async () => {
      const stream = await openStream('/events/?after=latest');
      return stream.status === 200 ? true : undefined;
    });
    await closeAll();
  });
});

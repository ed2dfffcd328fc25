import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ApiResponse, type Caller, createCaller } from '../../../support/api.ts';
import { openEventStream, type PublicEvent } from '../../../support/event-stream.ts';
import {
  releaseJob,
  runThroughAllStages,
  submitShellLine,
  waitForGoScript,
  waitForStage,
} from '../../../support/jobs.ts';
import { assertCleanLog } from '../../../support/logs.ts';
import { readMetric } from '../../../support/metrics.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { shippedConfig } from '../../../support/shipped-config.ts';
import { until } from '../../../support/until.ts';

// These tests need a server in a process of its own: they stop and restart it, and another process writes into its database.
// The other tests of events are in test/services/events.

const options = {
  config: { ...shippedConfig(), limits: { eventListeners: 5 } },
  tuning: { heartbeatIntervalMs: 200, eventIntervalMs: 200 },
};
let server: ServerProcess;
let me: Caller;

before(async () => {
  server = await spawnServer(options);
  me = createCaller(server.url, server.userToken);
});
after(() => server.dispose());

const getEvents = async (query: string) =>
  (await me.send('GET', `/events/${query}`, { accept: 'application/json' })) as ApiResponse<{
    events: PublicEvent[];
    next: number;
  }>;

describe('an event stream', () => {
  test('sends events that the command line has written', async (t) => {
    const stream = await openEventStream(server.url, server.userToken, { path: '/events/?after=latest' });
    t.after(() => stream.disconnect());
    const { next } = (await getEvents('?after=latest')).body;
    const path = '/jobs/hpc_two/proj_hpc_two_02/';
    const job = await runThroughAllStages(server, me, 'sleep 1', { path, payload: { runtime: '0.1' } });
    await stream.waitForEvents(4);
    // Withdraws all that is left, so that 100 % of the grant is used.
    const left = String((await me.quota('hpc_two', 'proj_hpc_two_02')).time_left);
    const project = 'hpc_two/proj_hpc_two_02';
    await server.bursar('grant', project, '--user', job.owner, '--time', left, '--withdraw', '--reason', 'for a test');
    const events = await stream.waitForEvents(5);
    const event = events.find(({ type }) => type === 'quota.threshold');
    assert.ok(event, JSON.stringify(events.slice(4)));
    assert.deepEqual([event.job, event.data.project_name, event.data.resource], [null, 'proj_hpc_two_02', 'time']);
    assert.ok(event.id > next);
  });
});

describe('a server that stops', () => {
  test('ends its streams and long polls at once, and sends events from its downtime after the restart', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript);
    await waitForStage(me, job, 'RUNNING');
    const { next } = (await getEvents('?after=latest')).body;
    const listeners = () => readMetric(server.url, 'bursar_open_requests{kind="event_listener"}');
    await until('the stream of the other test is closed', async () => (await listeners()) === 0 || undefined);
    const stream = await openEventStream(server.url, server.userToken, { path: `/events/?after=${next}` });
    const longPoll = getEvents(`?after=${next}&wait=60`);
    await until('the long poll has arrived', async () => (await listeners()) === 2 || undefined);
    assert.equal(await server.stop(), 0);
    await stream.closed;
    assert.deepEqual((await longPoll).body, { events: [], next });
    releaseJob(server, job);
    server = await spawnServer({ data: server.data, ...options });
    const token = await server.token(job.owner);
    const resumed = await openEventStream(server.url, token, { headers: { 'last-event-id': String(next) } });
    const [ended] = await resumed.waitForEvents(1);
    assert.deepEqual([ended?.id, ended?.type, ended?.job?.job_id], [next + 1, 'job.ended', job.job_id]);
    resumed.disconnect();
    await assertCleanLog(server, [token]);
  });
});

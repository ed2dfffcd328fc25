import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { families } from '../../../src/metrics/families.ts';
import { type Caller, createCaller } from '../../support/api.ts';
import { cancelJob, waitForGoScript } from '../../support/jobs.ts';
import { readMetric } from '../../support/metrics.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

describe('the metrics', () => {
  let server: TestServer;
  let me: Caller;
  const read = (name: string) => readMetric(server.url, name);
  const readAll = async () => (await createCaller(server.url, null).get('/metrics')).text;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
  });
  after(() => server.dispose());

  const requests = (method: string, route: string, status: string) =>
    read(`bursar_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`);

  test('measure requests by route and status class', async () => {
    for (let i = 0; i < 4; i++) assert.equal((await me.get('/jobs/')).status, 200);
    assert.equal(await requests('GET', '/jobs/', '2xx'), 4);
    assert.equal((await createCaller(server.url, 'bursar_wrong').get('/jobs/')).status, 401);
    assert.equal(await requests('GET', '/jobs/', '4xx'), 1);
  });

  test('have no more series after requests for many paths', async () => {
    const [stranger, marker] = [createCaller(server.url, null), randomUUID()];
    await stranger.get(`/${marker}`);
    // Series of the process itself, such as one for each kind of garbage collection, appear at any time.
    const countHttpSeries = (all: string) => all.split('\n').filter((line) => line.startsWith('bursar_http_')).length;
    const before = countHttpSeries(await readAll());
    for (let i = 0; i < 20; i++) await stranger.get(`/${marker}/${i}`);
    const text = await readAll();
    assert.ok(!text.includes(marker));
    assert.equal(countHttpSeries(text), before);
    assert.equal(await requests('GET', 'unmatched', '4xx'), 21);
  });

  test('count a request whose client disconnects, and an event stream with the time to its first byte', async () => {
    const headers = { authorization: `Bearer ${server.userToken}` };
    const wait = new AbortController();
    const waiting = fetch(`${server.url}/events/?wait=60`, { headers, signal: wait.signal }).catch(() => undefined);
    await until('it waits', async () => (await read('bursar_open_requests{kind="event_listener"}')) === 1 || undefined);
    wait.abort();
    await waiting;
    await until('it is counted', async () => (await requests('GET', '/events/', 'aborted')) === 1 || undefined);

    const stream = new AbortController();
    const accept = 'text/event-stream';
    await fetch(`${server.url}/events/`, { headers: { ...headers, accept }, signal: stream.signal });
    stream.abort();
    await until('the stream is counted', async () => (await requests('GET', '/events/', '2xx')) === 1 || undefined);
  });

  test('describe a job: its state, its hold, its files and the database', async () => {
    const job = (await me.submit('/jobs/hpc_one/', { command: waitForGoScript })).body;
    const jobs = (state: string) => read(`bursar_jobs{hpc="hpc_one",state="${state}"}`);
    await until('it runs', async () => (await jobs('running')) === 1 || undefined);
    assert.ok((await read('bursar_quota_held_seconds{hpc="hpc_one"}')) > 0);
    assert.ok((await read('bursar_oldest_job_age_seconds{hpc="hpc_one",state="running"}')) > 0);
    assert.equal(await read('bursar_oldest_job_age_seconds{hpc="hpc_one",state="queued"}'), 0);
    await cancelJob(me, job);
    await until('nothing runs', async () => (await jobs('running')) === 0 || undefined);
    assert.equal(await read('bursar_quota_held_seconds{hpc="hpc_one"}'), 0);
    assert.equal(await read('bursar_lease_holder{lease="system hpc_one"}'), 1);
    const operations = (name: string) => read(`bursar_database_operation_duration_seconds_count{operation="${name}"}`);
    for (const name of ['statement', 'transaction', 'commit', 'acquire']) assert.ok((await operations(name)) > 0, name);
    assert.equal((await me.get(`/files/hpc_one/proj_hpc_one_01/${job.job_id}/`)).status, 200);
    assert.ok((await read('bursar_download_bytes_total')) > 0);
  });

  test('count the bytes of uploads', async () => {
    const before = await read('bursar_upload_bytes_total');
    const zip = await createZip({ data: randomBytes(200_000) });
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'true' }, zip);
    assert.equal(await read('bursar_upload_bytes_total'), before + zip.length);
    await me.waitUntilFinished(job);
  });

  test('are well-formed, and complete', async () => {
    const text = await readAll();
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    assert.deepEqual([status, stdout, stderr], [0, '', '']);
    for (const [name, { type }] of Object.entries(families)) {
      assert.match(text, new RegExp(`^# HELP ${name} .{10}`, 'm'));
      assert.match(text, new RegExp(`^# TYPE ${name} ${type}$`, 'm'));
    }
    for (const name of ['nodejs_eventloop_lag_p99_seconds', 'nodejs_gc_duration_seconds_count', 'process_open_fds'])
      assert.match(text, new RegExp(`^${name}`, 'm'));
    assert.match(text, /^bursar_build_info\{version="test"\} 1$/m);
  });
});

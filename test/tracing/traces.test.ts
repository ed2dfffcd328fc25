import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../support/jobs.ts';
import { waitForLog } from '../support/logs.ts';
import { readMetric } from '../support/metrics.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.ts';
import { until } from '../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import { registerWebhook, webhookConfig, webhookTuning } from '../support/webhooks.ts';

describe('traces', () => {
  let collector: TraceCollector;
  let endpoint: TestEndpoint;
  let server: TestServer;
  let me: Caller;
  let config: object;
  before(async () => {
    collector = await startTraceCollector();
    endpoint = await startEndpoint();
    const headers = { 'x-collector-token': 'secret of the collector' };
    config = { ...webhookConfig(), tracing: { endpoint: `${collector.url}/v1/traces`, headers } };
    server = await startServer({ config, tuning: webhookTuning });
    me = createCaller(server.url, server.userToken);
  });
  after(async () => {
    await server.dispose();
    await Promise.all([collector.close(), endpoint.close()]);
  });

  const waitForSpan = (traceId: string, name: string) => collector.waitForSpan(traceId, name);

  function submit(traceparent: string): Promise<Job> {
    const payload = JSON.stringify({ command: waitForGoScript });
    const headers = { 'content-disposition': 'attachment; filename=job.zip', payload, traceparent };
    return me.send('POST', '/jobs/hpc_one/', headers).then(({ status, body }) => {
      assert.equal(status, 201);
      return body as Job;
    });
  }

  test('follow a submission from the request to its end, even if another server continues it', async () => {
    await registerWebhook(me, endpoint.url);
    const [traceId, callerSpan] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
    const job = await submit(`00-${traceId}-${callerSpan}-01`);
    await waitForStage(me, job, 'RUNNING');
    const request = await waitForSpan(traceId, 'POST /jobs/:hpc/');
    const dispatch = await waitForSpan(traceId, 'dispatch');
    const { userToken, data } = server;
    await waitForLog(server, new RegExp(`"trace_id":"${traceId}"`));
    await server.stop();
    server = await startServer({ data, config });
    me = createCaller(server.url, userToken);
    releaseJob(server, job);
    await me.waitUntilFinished(job);

    const parents = {
      [callerSpan]: [request],
      [request.spanId]: [dispatch, await waitForSpan(traceId, 'job run'), await waitForSpan(traceId, 'settle')],
      [dispatch.spanId]: [await waitForSpan(traceId, 'unpack'), await waitForSpan(traceId, 'submit')],
    };
    for (const [parent, spans] of Object.entries(parents))
      for (const span of spans) assert.equal(span.parentSpanId, parent, span.name);
    const run = await waitForSpan(traceId, 'job run');
    assert.ok(BigInt(run.endTimeUnixNano) > BigInt(run.startTimeUnixNano));

    const ended = await until('the webhook gets the end', () =>
      endpoint.requests.find(({ body }) => body.includes('job.ended')),
    );
    const delivery = await until('the delivery is traced', () =>
      collector.spans().find(({ spanId }) => ended.headers.traceparent === `00-${traceId}-${spanId}-01`),
    );
    assert.deepEqual([delivery.name, delivery.parentSpanId], ['webhook delivery', request.spanId]);
    assert.ok(collector.requests.every(({ headers }) => headers['x-collector-token'] === 'secret of the collector'));
    const sent = collector.requests.map(({ body }) => body).join();
    for (const secret of [waitForGoScript, userToken, server.data]) assert.ok(!sent.includes(secret));
  });

  test('a malformed traceparent begins a new trace, and one that is not sampled is not recorded', async () => {
    const marker = randomBytes(16).toString('hex');
    for (const traceparent of [
      'nonsense',
      `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`,
      `00-${marker}-1234567890abcdef-00`,
    ])
      assert.equal((await me.send('GET', '/jobs/', { traceparent })).status, 200);
    const later = randomBytes(16).toString('hex');
    await me.send('GET', '/quotas/', { traceparent: `00-${later}-1234567890abcdef-01` });
    await waitForSpan(later, 'GET /quotas/');
    const lists = collector.spans().filter(({ name }) => name === 'GET /jobs/');
    assert.equal(lists.filter(({ parentSpanId }) => !parentSpanId).length, 2);
    assert.ok(!lists.some(({ traceId }) => traceId === marker));
  });

  test('that the collector refuses are counted and logged, and delay nothing', async () => {
    const dropped = () => readMetric(server.url, 'bursar_trace_spans_dropped_total');
    assert.equal(await dropped(), 0);
    collector.respondWith(() => ({ status: 400 }));
    const before = collector.requests.length;
    for (let i = 0; i < 3; i++) assert.equal((await me.get('/jobs/')).status, 200);
    await until('they are counted', async () => (await dropped()) >= 3 || undefined);
    assert.ok(collector.requests.length > before);
    await waitForLog(server, /spans not sent: the collector of traces is slow or down/);
  });

  test('a collector that does not answer delays neither a submission nor the end of the server', async () => {
    collector.respondWith(() => null);
    const job = await submit('');
    await waitForStage(me, job, 'RUNNING');
    releaseJob(server, job);
    await me.waitUntilFinished(job);
    await server.stop();
  });
});

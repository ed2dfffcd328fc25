import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bursar, type BursarEvent, type JobHandle, type UploadProgress } from '#client';
import { collect } from '../support/collect.ts';
import { type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts';
import { releaseJob, waitForGoScript } from '../support/jobs.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

// Uploads, streams and waits across connections that are cut.

let server: TestServer;
let proxy: CuttingProxy;
let bursar: Bursar;

before(async () => {
  server = await startServer();
  proxy = await startCuttingProxy(server.url);
  bursar = new Bursar({ url: proxy.url, token: server.userToken });
});
after(async () => {
  await proxy.close();
  await server.dispose();
});

const countRequests = (pattern: RegExp) => proxy.requests().filter((line) => pattern.test(line)).length;
const eventStreams = /^GET \/events\/ /;

/** Submits a job that waits for `releaseJob`. */
const submitWaiting = (then = 'true') => bursar.submit({ hpc: 'hpc_one', command: `${waitForGoScript}; ${then}` });
/** Ends such jobs as they start, until this many have: few run at the same time, and in any order. */
async function release(jobs: Set<JobHandle>, count: number): Promise<JobHandle[]> {
  const released: JobHandle[] = [];
  while (released.length < count) {
    const running = await until('a job runs', async () => {
      for (const job of jobs) if ((await job.refresh()).stage === 'RUNNING') return job;
      return undefined;
    });
    jobs.delete(running);
    released.push(running);
    releaseJob(server, running.data);
  }
  return released;
}

describe('uploads', () => {
  test('that are cut several times arrive once, with all bytes', async () => {
    const data = randomBytes(2_000_000);
    const zip = await createZip({ 'data.bin': data });
    const stream = () => new Blob([new Uint8Array(zip)]).stream() as ReadableStream<Uint8Array>;
    for (const bytes of [200_000, 1_900_000, 1_000_000]) proxy.cutAfter('up', bytes);
    const progress: UploadProgress[] = [];
    const job = await bursar.submit({
      hpc: 'hpc_one',
      command: 'sha256sum data.bin',
      tags: ['cut-upload'],
      input: stream,
      onProgress: (step) => progress.push(step),
    });
    assert.equal(proxy.pendingCuts(), 0);
    const { attempt = 0, sentBytes } = progress.at(-1) ?? {};
    // The server may refuse an attempt while it has not noticed the end of the former one.
    assert.ok(attempt >= 4, `${attempt} attempts`);
    assert.equal(sentBytes, zip.length);
    await job.wait();
    const log = (await collect(job.log())).join('');
    assert.equal(log, `${createHash('sha256').update(data).digest('hex')}  data.bin\n`);
    assert.equal((await collect(bursar.jobs({ tag: ['cut-upload'] }))).length, 1);
  });

  test('of a source that fails are not repeated', async () => {
    const before = countRequests(/^POST/);
    const input = () =>
      new ReadableStream<Uint8Array>({
        pull() {
          throw new Error('on purpose');
        },
      });
    await assert.rejects(bursar.submit({ hpc: 'hpc_one', command: 'true', input }), /on purpose/);
    assert.ok(countRequests(/^POST/) - before <= 1);
  });

  test('read their source no faster than the server takes it', async (context) => {
    const server = createServer((socket) => socket.on('error', () => undefined).pause()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    context.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    // More than the buffers of a connection hold.
    const chunks = 100;
    let read = 0;
    const input = () =>
      new ReadableStream<Uint8Array>(
        {
          pull: (controller) =>
            read++ === chunks ? controller.close() : controller.enqueue(new Uint8Array(1_000_000)),
        },
        { highWaterMark: 0 },
      );
    const abort = new AbortController();
    const client = new Bursar({ url: `http://127.0.0.1:${port}`, token: 'any' });
    const submission = client.submit({ hpc: 'hpc_one', command: 'true', input, signal: abort.signal });
    const rejected = assert.rejects(submission, /enough/);
    let before = 0;
    await until('the client waits for the server, or has read everything', async () => {
      before = read;
      await sleep(500);
      return (read > 0 && read === before) || undefined;
    });
    abort.abort(new Error('enough'));
    await rejected;
    assert.ok(before < chunks / 2, `${before} of ${chunks} chunks`);
  });

  test('end when they are aborted', async () => {
    const abort = new AbortController();
    const input = () =>
      new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(new Uint8Array(1000));
          abort.abort(new Error('enough'));
        },
      });
    await assert.rejects(bursar.submit({ hpc: 'hpc_one', command: 'true', input, signal: abort.signal }), /enough/);
  });
});

describe('waits', () => {
  test('of four jobs use one stream, and survive its interruption', async () => {
    const jobs = await Promise.all(Array.from({ length: 4 }, () => submitWaiting()));
    const streamsBefore = countRequests(eventStreams);
    const seen = new Map<string, string[]>();
    const waits = new Map(
      jobs.map((job) => {
        const stages: string[] = [];
        seen.set(job.job_id, stages);
        return [job, job.wait({ onChange: ({ stage }) => stages.push(stage) })];
      }),
    );
    await until('the stream is open', () => countRequests(eventStreams) > streamsBefore || undefined);
    const unreleased = new Set(jobs);
    for (const job of await release(unreleased, 2)) await waits.get(job);
    assert.equal(countRequests(eventStreams) - streamsBefore, 1);

    proxy.cutAll();
    await release(unreleased, 2);
    const ended = await Promise.all(waits.values());
    assert.ok(ended.every(({ stage }) => stage === 'SUCCESSFUL'));
    assert.equal(countRequests(eventStreams) - streamsBefore, 2);
    assert.ok([...seen.values()].every((stages) => stages.at(-1) === 'SUCCESSFUL'));
  });

  test('end when they are aborted, and the job runs on', async () => {
    const job = await submitWaiting();
    const abort = new AbortController();
    const wait = job.wait({ signal: abort.signal, onChange: () => abort.abort(new Error('enough')) });
    await assert.rejects(wait, /enough/);
    assert.equal((await job.refresh()).terminal_stage, false);
    await job.cancel();
    assert.equal((await job.wait()).stage, 'CANCELED');
    assert.equal((await job.timeline()).job.job_id, job.job_id);
    assert.equal((await job.delete()).stage, 'DELETED');
  });
});

test('events come once each and in order, although their stream is cut', async () => {
  const abort = new AbortController();
  const received: BursarEvent[] = [];
  const reading = (async () => {
    for await (const event of bursar.events({ since: 0, signal: abort.signal })) received.push(event);
  })().catch((error: unknown) => error);
  for (const round of [1, 2, 3]) {
    const job = await bursar.submit({ hpc: 'hpc_one', command: `echo ${round}` });
    await until(
      `the end of job ${round} is reported`,
      async () =>
        received.some(({ type, job: reported }) => type === 'job.ended' && reported?.job_id === job.job_id) ||
        undefined,
    );
    proxy.cutAll();
  }
  abort.abort();
  await reading;
  assert.deepEqual(
    received.map(({ id }) => id),
    received.map((_, index) => index + 1),
  );
});

test('a new event after an interruption of a stream that had none is not missed', async () => {
  const iterator = bursar.events()[Symbol.asyncIterator]();
  const streamsBefore = countRequests(eventStreams);
  const first = iterator.next();
  await until('the stream is open', async () => countRequests(eventStreams) > streamsBefore || undefined);
  proxy.cutAll();
  const job = await bursar.submit({ hpc: 'hpc_one', command: 'true' });
  const { value } = await first;
  assert.deepEqual([value?.type, value?.job?.job_id], ['job.accepted', job.job_id]);
  await iterator.return?.(undefined);
});

test('a followed log has every line once, although its stream is cut', async () => {
  const line = `echo grüße; echo 2; ${waitForGoScript}; printf "3\\n4"`;
  const job = await bursar.submit({ hpc: 'hpc_one', command: line });
  const texts: string[] = [];
  for await (const text of job.log({ follow: true })) {
    texts.push(text);
    if (texts.join('') !== 'grüße\n2\n') continue;
    proxy.cutAll();
    releaseJob(server, job.data);
  }
  assert.equal(texts.join(''), 'grüße\n2\n3\n4');
  await job.wait();
  assert.equal((await collect(job.log({ offset: 8 }))).join(''), '2\n3\n4');
});

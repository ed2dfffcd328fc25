import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { defaultTuning } from '../../../../src/composition/tuning.ts';
import type { Connection } from '../../../../src/http/limits/concurrency.ts';
import { createSlowReaderCheck } from '../../../../src/http/limits/slow-readers.ts';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { createCertificateAuthority } from '../../../support/certificates.ts';
import { openEventStream } from '../../../support/event-stream.ts';
import { jobPath } from '../../../support/jobs.ts';
import { readMetric } from '../../../support/metrics.ts';
import { bearerHeader, formatRequestHead } from '../../../support/raw-http.ts';
import { startServer, type TestServer } from '../../../support/server.ts';
import { until } from '../../../support/until.ts';

const responseBytes = 64_000_000;
const partBytes = 64_000;
/** More than the send buffer of the system, so that each burst lets the server send more. */
const burstBytes = 8_000_000;

async function readBytes(client: Socket, bytes: number): Promise<void> {
  let received = 0;
  const onData = (chunk: Buffer) => {
    received += chunk.length;
    if (received >= bytes) client.pause();
  };
  client.on('data', onData).resume();
  await until('the client has read', () => received >= bytes || undefined);
  client.off('data', onData);
}

describe('the check for slow readers', () => {
  let server: Server;
  const clients: Socket[] = [];
  before(async () => {
    server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.destroy();
  });
  after(() => server.close());

  /** Opens a connection on which a response waits. The client reads nothing yet. */
  async function openConnection(
    respond: (socket: Socket) => void,
  ): Promise<{ client: Socket; connection: Connection }> {
    const { port } = server.address() as { port: number };
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = connect(port, '127.0.0.1').pause();
    clients.push(client);
    const [socket] = await accepted;
    socket.on('error', () => undefined);
    respond(socket);
    await sleep(50);
    return { client, connection: { socket, stream: socket } };
  }

  /** As files are sent: the next part is written when the last one was taken. */
  function sendInParts(socket: Socket): void {
    const parts = Array.from({ length: responseBytes / partBytes }, () => Buffer.alloc(partBytes));
    Readable.from(parts).pipe(socket);
  }
  const sendAtOnce = (socket: Socket) => void socket.write(Buffer.alloc(responseBytes));

  // More than what waits of a response in parts, so that it has one window.
  const limits = { windowMs: 1000, minBytes: 500_000, maxWaitingBytes: 1e12 };

  test('finds a client that takes too little within the window, and nobody earlier', async () => {
    const findSlowReaders = createSlowReaderCheck(limits);
    const { connection } = await openConnection(sendInParts);
    for (const now of [0, 500, 999]) assert.deepEqual(findSlowReaders([connection], now), []);
    assert.deepEqual(findSlowReaders([connection], 1000), [connection]);
  });

  test('finds a client that takes a little of a response again and again', () => {
    const findSlowReaders = createSlowReaderCheck(limits);
    const socket = { bytesWritten: 400_000, writableLength: 400_000 } as Socket & { bytesWritten: number };
    const connection = { socket, stream: socket };
    const check = (now: number) => findSlowReaders([connection], now);
    assert.deepEqual(check(0), []);
    for (const now of [100, 400, 700, 1000]) {
      socket.bytesWritten += 50_000;
      assert.deepEqual(check(now), [], String(now));
    }
    for (const now of [1100, 1200, 1300]) assert.deepEqual(check(now), [], 'the bytes count for the time after them');
    assert.deepEqual(check(1400), [connection]);
  });

  test('gives a large write the time that it takes at the minimum rate, up to ten windows', () => {
    const waiting = (writableLength: number): Connection => {
      const socket = { bytesWritten: 5e6, writableLength } as unknown as Socket;
      return { socket, stream: socket };
    };
    for (const [connection, ms] of [
      [waiting(1), 1000],
      [waiting(1_500_000), 3000],
      [waiting(1e9), 10_000],
    ] as const) {
      const findSlowReaders = createSlowReaderCheck(limits);
      for (const now of [0, ms - 1]) assert.deepEqual(findSlowReaders([connection], now), [], String(ms));
      assert.deepEqual(findSlowReaders([connection], ms), [connection]);
    }
  });

  test('works with TLS', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-slow-tls-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const authority = await createCertificateAuthority(folder);
    const tlsServer = createTlsServer(await authority.issue('IP:127.0.0.1')).listen(0, '127.0.0.1');
    await once(tlsServer, 'listening');
    t.after(() => tlsServer.close());
    const accepted = once(tlsServer, 'connection') as Promise<[Socket]>;
    const secured = once(tlsServer, 'secureConnection') as Promise<[TLSSocket]>;
    const { port } = tlsServer.address() as { port: number };
    const client = connectTls({ port, host: '127.0.0.1', ca: readFileSync(authority.certificateFile) });
    clients.push(client);
    const [[socket], [stream]] = await Promise.all([accepted, secured, once(client, 'secureConnect')]);
    const connection = { socket, stream };
    stream.on('error', () => undefined);
    const findSlowReaders = createSlowReaderCheck(limits);
    assert.deepEqual(findSlowReaders([connection], 0), []);
    client.pause();
    sendInParts(stream);
    await sleep(50);
    for (const now of [0, 999]) assert.deepEqual(findSlowReaders([connection], now), []);
    await readBytes(client, 10_000_000);
    for (const now of [1000, 10_999]) assert.deepEqual(findSlowReaders([connection], now), [], 'it has read a part');
    assert.deepEqual(findSlowReaders([connection], 11_000), [connection]);
  });

  test('ignores a connection on which nothing waits', async () => {
    const findSlowReaders = createSlowReaderCheck(limits);
    const { client, connection } = await openConnection(sendAtOnce);
    await readBytes(client, responseBytes);
    for (const now of [0, 1000, 5000]) assert.deepEqual(findSlowReaders([connection], now), []);
  });

  test('does not find a client that takes enough, in bursts that are not in every window', async () => {
    const findSlowReaders = createSlowReaderCheck(limits);
    const { client, connection } = await openConnection(sendInParts);
    assert.deepEqual(findSlowReaders([connection], 0), []);
    await readBytes(client, 10_000_000);
    for (const now of [100, 1100, 5000, 10_000]) assert.deepEqual(findSlowReaders([connection], now), []);
    await readBytes(client, 10_000_000);
    for (const now of [10_050, 20_049]) assert.deepEqual(findSlowReaders([connection], now), []);
    assert.deepEqual(findSlowReaders([connection], 20_050), [connection]);
  });

  test('finds those that read nothing for some checks if too much waits in all', async () => {
    const findSlowReaders = createSlowReaderCheck({ ...limits, maxWaitingBytes: responseBytes * 1.5 });
    const [first, second] = [await openConnection(sendAtOnce), await openConnection(sendAtOnce)];
    const both = [first.connection, second.connection];
    for (const now of [0, 1, 2, 3]) assert.deepEqual(findSlowReaders(both, now), [], 'they may read in bursts');
    assert.equal(findSlowReaders(both, 4).length, 1, 'the other one is within the limit');
  });
});

describe('a server', () => {
  let server: TestServer;
  let me: Caller;
  let job: Job;
  before(async () => {
    // More than what waits of a download, so that it has one second.
    const slowReaders = { ...defaultTuning.slowReaders, windowMs: 1000, minBytes: 500_000 };
    server = await startServer({ tuning: { slowReaders, heartbeatIntervalMs: 30_000 } });
    me = createCaller(server.url, server.userToken);
    const { body } = await me.submit('/jobs/hpc_one/', { command: `head -c ${responseBytes} /dev/zero > large` });
    job = await me.waitUntilFinished(body);
  });
  after(() => server.dispose());

  const filePath = () => `${jobPath(job).replace('/jobs/', '/files/')}large`;
  const cuts = () => readMetric(server.url, 'bursar_connections_cut_total{reason="slow_reader"}');
  const downloads = () => readMetric(server.url, 'bursar_open_requests{kind="download"}');

  test('disconnects a client that does not read its response, and closes the file', async () => {
    const { hostname, port } = new URL(server.url);
    const client = connect(Number(port), hostname).pause();
    client.on('error', () => undefined);
    client.write(formatRequestHead({ path: filePath(), headers: [bearerHeader(server.userToken)] }));
    await until('the client is disconnected', async () => (await cuts()) === 1 || undefined);
    await until('the download has ended', async () => (await downloads()) === 0 || undefined);
    let received = 0;
    client.on('data', (chunk) => {
      received += chunk.length;
    });
    client.resume();
    await once(client, 'close');
    assert.ok(received < responseBytes, 'the response is not complete');
  });

  test('serves a client that reads slowly, and one whose stream is silent', async () => {
    const before = await cuts();
    const stream = await openEventStream(server.url, server.userToken, { path: '/events/?after=latest' });
    const response = await fetch(server.url + filePath(), { headers: { authorization: `Bearer ${server.userToken}` } });
    let received = 0;
    let burst = 0;
    for await (const chunk of response.body ?? []) {
      received += chunk.length;
      burst += chunk.length;
      if (burst < burstBytes) continue;
      burst = 0;
      await sleep(100);
    }
    assert.equal(received, responseBytes);
    await sleep(1500);
    await me.submit('/jobs/hpc_one/', { command: 'true' });
    await stream.waitForEvents(1);
    stream.disconnect();
    assert.equal(await cuts(), before);
  });

  test('does not count the time in which the server itself could not send', async () => {
    const before = await cuts();
    const { hostname, port } = new URL(server.url);
    const client = connect(Number(port), hostname).pause();
    client.write(formatRequestHead({ path: filePath(), headers: [bearerHeader(server.userToken)] }));
    await until('the download has begun', async () => (await downloads()) === 1 || undefined);
    // A check sees that the response waits.
    await sleep(150);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);
    await readBytes(client, responseBytes);
    client.destroy();
    assert.equal(await cuts(), before);
  });
});

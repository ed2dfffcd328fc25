import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, readdir, readFile, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { createSpool, maxInMemoryBytes, type Upload } from '../../../src/files/spool/spool.ts';
import { countOpenFiles, runUnprivileged } from '../temporary.ts';
import { chunks, isDiskErrorWithoutPath, jobId, largeLimit, modeOf, openSpool } from './spool-fixture.ts';

/** Body sizes on both sides of the limit for bodies in memory. */
const sizes: [name: string, bytes: number][] = [
  ['small', 11],
  ['as large as the memory limit', maxInMemoryBytes],
  ['larger than the memory limit', maxInMemoryBytes + 1],
];

/** A body with changing content, so that a wrong order of chunks is detected. */
const createBody = (bytes: number) => Buffer.from(Array.from({ length: bytes }, (_, i) => (i * i) % 251));

async function* inChunks(body: Buffer, chunkBytes: number) {
  for (let start = 0; start < body.length; start += chunkBytes) yield body.subarray(start, start + chunkBytes);
}

async function readContent({ content }: Upload): Promise<Buffer> {
  return content.kind === 'file' ? await readFile(content.path) : content.bytes;
}

for (const [name, bytes] of sizes) {
  test(`receive counts and hashes a body that is ${name}, and stores files with access only for the owner`, async (t) => {
    const { spool } = await openSpool(t);
    const body = createBody(bytes);
    const before = await countOpenFiles();
    const upload = await spool.receive(inChunks(body, 10_000), largeLimit);
    assert.deepEqual(await readContent(upload), body);
    assert.equal(upload.bytes, bytes);
    assert.equal(upload.sha256, createHash('sha256').update(body).digest('hex'));
    assert.equal(upload.content.kind, bytes > maxInMemoryBytes ? 'file' : 'memory');
    if (upload.content.kind === 'file') {
      assert.equal(await modeOf(upload.content.path), 0o600);
      await spool.storeForJob(upload.content.path, jobId);
      assert.deepEqual(await readFile(spool.pathOf(jobId)), body);
      assert.equal(await modeOf(spool.pathOf(jobId)), 0o600);
    }
    assert.ok((await countOpenFiles()) <= before);
  });
}

test('receive ends with an error if the sender stalls, and leaves nothing', async (t) => {
  const { directory, incoming } = await openSpool(t);
  const spool = createSpool(directory, { maxPauseMs: 50 });
  async function* stalling() {
    yield Buffer.alloc(maxInMemoryBytes + 1);
    await new Promise(() => undefined);
  }
  const message = 'No more of the request body arrived for 0.05 seconds. Send the request again.';
  await assert.rejects(spool.receive(stalling(), largeLimit), { code: 'timeout', message });
  const stream = new PassThrough();
  stream.write('half');
  await assert.rejects(spool.receive(stream, largeLimit), { code: 'timeout', message });
  assert.deepEqual(await incoming(), []);
  // The server discards the rest before it responds.
  assert.equal(stream.destroyed, false);
  stream.end('rest');
  stream.on('data', () => undefined);
  await once(stream.resume(), 'end');
});

test('receive writes no file for a small body', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  const upload = await spool.receive(chunks('hello ', 'world'), largeLimit);
  assert.deepEqual(await incoming(), []);
  assert.deepEqual(await readdir(directory), ['incoming']);
  assert.deepEqual(upload.content, { kind: 'memory', bytes: Buffer.from('hello world') });
});

test('receive writes a file for a body in very many chunks, however small it is', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = createBody(1000);
  const upload = await spool.receive(inChunks(body, 1), largeLimit);
  assert.equal((await incoming()).length, 1);
  assert.deepEqual(await readContent(upload), body);
});

test('receive accepts a stream, also with string chunks', async (t) => {
  const { spool } = await openSpool(t);
  const upload = await spool.receive(Readable.from([Buffer.from('hello '), 'wörld']), largeLimit);
  assert.equal((await readContent(upload)).toString(), 'hello wörld');
  assert.equal(upload.bytes, 12);
});

test('receive accepts an empty body', async (t) => {
  const { spool } = await openSpool(t);
  const upload = await spool.receive(Readable.from([]), largeLimit);
  assert.equal(upload.bytes, 0);
  assert.equal((await readContent(upload)).length, 0);
});

test('receive writes every chunk of a large body to disk before it reads the next', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  const chunk = Buffer.alloc(65_536, 'x');
  async function* watched() {
    yield chunk;
    assert.deepEqual(await incoming(), []);
    yield chunk;
    for (let written = 2 * chunk.length; written < 20 * chunk.length; written += chunk.length) {
      const [name] = await incoming();
      assert.equal((await stat(join(directory, 'incoming', name ?? ''))).size, written);
      yield chunk;
    }
  }
  assert.equal((await spool.receive(watched(), { maxBytes: 20 * chunk.length })).bytes, 20 * chunk.length);
});

test('receive accepts a body as large as the limit', async (t) => {
  const { spool } = await openSpool(t);
  assert.equal((await spool.receive(chunks('12345', '67890'), { maxBytes: 10 })).bytes, 10);
});

test('receive rejects a body as soon as it exceeds the limit, reads no further, and leaves no file', async (t) => {
  const { spool, incoming } = await openSpool(t);
  let chunkCount = 0;
  async function* endless() {
    for (;;) {
      chunkCount += 1;
      yield Buffer.alloc(4);
    }
  }
  await assert.rejects(spool.receive(endless(), { maxBytes: 10 }), {
    code: 'too_large',
    message: /larger than the limit of 10 B\. Send a smaller zip/,
    details: { maxBytes: 10, receivedBytes: 12 },
  });
  assert.equal(chunkCount, 3);
  assert.deepEqual(await incoming(), []);
});

test('receive does not destroy a stream that exceeds the limit, so that the server can respond', async (t) => {
  const { spool } = await openSpool(t);
  const body = new PassThrough();
  body.write(Buffer.alloc(11));
  await assert.rejects(spool.receive(body, { maxBytes: 10 }), { code: 'too_large' });
  assert.equal(body.destroyed, false);
  const closed = new Promise((resolve) => body.on('close', resolve));
  body.destroy(new Error('the client disconnects'));
  await closed;
});

test('receive leaves no file for a large body that exceeds the limit', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const before = await countOpenFiles();
  const body = inChunks(createBody(300_000), 50_000);
  await assert.rejects(spool.receive(body, { maxBytes: 200_000 }), { code: 'too_large' });
  assert.deepEqual(await incoming(), []);
  assert.ok((await countOpenFiles()) <= before);
});

test('receive reports a failed stream as an invalid body, and leaves no file', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = new PassThrough();
  body.write('half');
  const received = spool.receive(body, largeLimit);
  body.destroy(new Error('reset'));
  await assert.rejects(received, { code: 'invalid_body', message: /ended prematurely/ });
  assert.deepEqual(await incoming(), []);
});

test('receive reports a stream closed before its end as an invalid body, and leaves no file', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = new PassThrough();
  body.write('half');
  const received = spool.receive(body, largeLimit);
  body.destroy();
  await assert.rejects(received, { code: 'invalid_body' });
  assert.deepEqual(await incoming(), []);
});

test('receive reports a stream that is already destroyed as an invalid body', async (t) => {
  const { spool } = await openSpool(t);
  const body = new PassThrough();
  body.destroy();
  await assert.rejects(spool.receive(body, largeLimit), { code: 'invalid_body' });
});

test('receive reports a client that disconnects as an invalid body, and leaves no file', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = request({ port, host: '127.0.0.1', method: 'POST', headers: { 'content-length': 1000 } });
  client.on('error', () => undefined);
  client.write('half');
  const [body] = (await once(server, 'request')) as [IncomingMessage];
  const received = spool.receive(body, largeLimit);
  client.destroy();
  await assert.rejects(received, { code: 'invalid_body' });
  assert.deepEqual(await incoming(), []);
});

test('receive rethrows a BursarError of the body unchanged', async (t) => {
  const { spool } = await openSpool(t);
  const bodyError = new BursarError('bad_request', 'two files in one form');
  async function* failing() {
    yield Buffer.from('half');
    throw bodyError;
  }
  await assert.rejects(spool.receive(failing(), largeLimit), bodyError);
});

test('receive distinguishes disk errors from errors of the body', async (t) => {
  const { spool, directory } = await openSpool(t);
  await chmod(join(directory, 'incoming'), 0o500);
  await runUnprivileged(async () => {
    await assert.rejects(
      spool.receive(inChunks(createBody(100_000), 50_000), largeLimit),
      isDiskErrorWithoutPath(directory),
    );
  });
});

test('concurrent uploads do not interfere', async (t) => {
  const { spool } = await openSpool(t);
  const texts = Array.from({ length: 20 }, (_, i) => `upload ${i}`);
  const uploads = await Promise.all(texts.map((text) => spool.receive(chunks(text, text), largeLimit)));
  const stored = await Promise.all(uploads.map(async (upload) => (await readContent(upload)).toString()));
  assert.deepEqual(
    stored,
    texts.map((text) => text + text),
  );
});

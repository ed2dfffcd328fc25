import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { createSpool, type Spool, type Upload } from '../../../src/files/spool/spool.ts';
import { maxInMemoryBytes } from '../../../src/files/spool/upload-buffer.ts';
import { countOpenFiles, runUnprivileged, temporaryFolder } from '../temporary.ts';

const jobId = '5B2C4E0A-3F6D-4C1B-9E7A-0123456789AB';
const roomy = { maxBytes: 1_000_000 };

async function openSpool(t: TestContext) {
  const directory = join(await temporaryFolder(t), 'data', 'spool');
  const spool = createSpool(directory);
  await spool.open();
  const incoming = () => readdir(join(directory, 'incoming'));
  return { spool, directory, incoming };
}

async function* chunks(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text);
}

/** What is held in memory, and what is not. */
const sizes: [name: string, bytes: number][] = [
  ['small', 11],
  ['as large as is held', maxInMemoryBytes],
  ['too large to be held', maxInMemoryBytes + 1],
];

/** A body of so many bytes, no two thousand of which are the same. */
const bodyOf = (bytes: number) => Buffer.from(Array.from({ length: bytes }, (_, i) => (i * i) % 251));

async function* inPieces(body: Buffer, pieceBytes: number) {
  for (let start = 0; start < body.length; start += pieceBytes) yield body.subarray(start, start + pieceBytes);
}

/** The file of an upload that is too large to be held. */
async function receiveFile(spool: Spool, text: string): Promise<string> {
  const { content } = await spool.receive(chunks(text.padEnd(maxInMemoryBytes + 1)), roomy);
  assert(content.kind === 'file');
  return content.path;
}

async function bytesOf({ content }: Upload): Promise<Buffer> {
  return content.kind === 'file' ? await readFile(content.path) : content.bytes;
}

async function modeOf(path: string) {
  return (await stat(path)).mode & 0o777;
}

test('opening makes the folders, for their owner only', async (t) => {
  const { directory } = await openSpool(t);
  assert.equal(await modeOf(directory), 0o700);
  assert.equal(await modeOf(join(directory, 'incoming')), 0o700);
});

test('sweeping removes what an earlier life was receiving, and keeps the zips of jobs', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  await writeFile(join(directory, 'incoming', 'old.part'), 'half');
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await createSpool(directory).open();
  await spool.removeStaleUploads(0);
  assert.deepEqual(await incoming(), []);
  assert.deepEqual(await spool.list(), [jobId]);
});

test('sweeping beside others removes only what nobody has added to for a while', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  for (const name of ['old.part', 'new.part']) await writeFile(join(directory, 'incoming', name), 'half');
  const longAgo = new Date(Date.now() - 7_200_000);
  await utimes(join(directory, 'incoming', 'old.part'), longAgo, longAgo);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await spool.removeStaleUploads(3_600_000);
  assert.deepEqual(await incoming(), ['new.part']);
  assert.deepEqual(await spool.list(3_600_000), []);
  assert.deepEqual(await spool.list(), [jobId]);
});

for (const [name, bytes] of sizes) {
  test(`a body that is ${name} is held or stored, counted and hashed, for its owner only`, async (t) => {
    const { spool } = await openSpool(t);
    const body = bodyOf(bytes);
    const before = await countOpenFiles();
    const upload = await spool.receive(inPieces(body, 10_000), roomy);
    assert.deepEqual(await bytesOf(upload), body);
    assert.equal(upload.bytes, bytes);
    assert.equal(upload.sha256, createHash('sha256').update(body).digest('hex'));
    assert.equal(upload.content.kind, bytes > maxInMemoryBytes ? 'file' : 'memory');
    if (upload.content.kind === 'file') {
      assert.equal(await modeOf(upload.content.path), 0o600);
      await spool.storeForJob(upload.content.path, jobId);
      assert.deepEqual(await readFile(spool.pathOf(jobId)), body);
      assert.equal(await modeOf(spool.pathOf(jobId)), 0o600);
    }
    assert.equal(await countOpenFiles(), before);
  });
}

test('a small body touches no disk', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  const upload = await spool.receive(chunks('hello ', 'world'), roomy);
  assert.deepEqual(await incoming(), []);
  assert.deepEqual(await readdir(directory), ['incoming']);
  assert.deepEqual(upload.content, { kind: 'memory', bytes: Buffer.from('hello world') });
});

test('a body in very many pieces is not held in memory, however small it is', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = bodyOf(1000);
  const upload = await spool.receive(inPieces(body, 1), roomy);
  assert.equal((await incoming()).length, 1);
  assert.deepEqual(await bytesOf(upload), body);
});

test('a stream is stored like any other body', async (t) => {
  const { spool } = await openSpool(t);
  const upload = await spool.receive(Readable.from([Buffer.from('hello '), 'wörld']), roomy);
  assert.equal((await bytesOf(upload)).toString(), 'hello wörld');
  assert.equal(upload.bytes, 12);
});

test('an empty body is stored too', async (t) => {
  const { spool } = await openSpool(t);
  const upload = await spool.receive(Readable.from([]), roomy);
  assert.equal(upload.bytes, 0);
  assert.equal((await bytesOf(upload)).length, 0);
});

test('every chunk of a larger body is on disk before the next one is asked for', async (t) => {
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

test('a body as large as the limit is taken', async (t) => {
  const { spool } = await openSpool(t);
  assert.equal((await spool.receive(chunks('12345', '67890'), { maxBytes: 10 })).bytes, 10);
});

test('a body over the limit is refused as soon as it crosses it, with nothing read after and nothing kept', async (t) => {
  const { spool, incoming } = await openSpool(t);
  let asked = 0;
  async function* endless() {
    for (;;) {
      asked += 1;
      yield Buffer.alloc(4);
    }
  }
  await assert.rejects(spool.receive(endless(), { maxBytes: 10 }), {
    code: 'too_large',
    message: /larger than 10 bytes.*12 bytes had come in/,
    details: { maxBytes: 10, receivedBytes: 12 },
  });
  assert.equal(asked, 3);
  assert.deepEqual(await incoming(), []);
});

test('a stream over the limit is left open, so that its sender can be answered', async (t) => {
  const { spool } = await openSpool(t);
  const body = new PassThrough();
  body.write(Buffer.alloc(11));
  await assert.rejects(spool.receive(body, { maxBytes: 10 }), { code: 'too_large' });
  assert.equal(body.destroyed, false);
  const closed = new Promise((resolve) => body.on('close', resolve));
  body.destroy(new Error('the sender hangs up after all'));
  await closed;
});

test('a large body over the limit leaves no file behind', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const before = await countOpenFiles();
  const body = inPieces(bodyOf(300_000), 50_000);
  await assert.rejects(spool.receive(body, { maxBytes: 200_000 }), { code: 'too_large' });
  assert.deepEqual(await incoming(), []);
  assert.equal(await countOpenFiles(), before);
});

test('a stream that fails is an invalid body, and nothing is kept', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = new PassThrough();
  body.write('half');
  const received = spool.receive(body, roomy);
  body.destroy(new Error('reset'));
  await assert.rejects(received, { code: 'invalid_body', message: /broke off/ });
  assert.deepEqual(await incoming(), []);
});

test('a stream that is closed before its end is an invalid body, and nothing is kept', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const body = new PassThrough();
  body.write('half');
  const received = spool.receive(body, roomy);
  body.destroy();
  await assert.rejects(received, { code: 'invalid_body' });
  assert.deepEqual(await incoming(), []);
});

test('a stream that was destroyed before it came is an invalid body', async (t) => {
  const { spool } = await openSpool(t);
  const body = new PassThrough();
  body.destroy();
  await assert.rejects(spool.receive(body, roomy), { code: 'invalid_body' });
});

test('a sender that hangs up in the middle is an invalid body, and nothing is kept', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sender = request({ port, host: '127.0.0.1', method: 'POST', headers: { 'content-length': 1000 } });
  sender.on('error', () => undefined);
  sender.write('half');
  const [body] = (await once(server, 'request')) as [IncomingMessage];
  const received = spool.receive(body, roomy);
  sender.destroy();
  await assert.rejects(received, { code: 'invalid_body' });
  assert.deepEqual(await incoming(), []);
});

test('a refusal by the body itself is passed on as it is', async (t) => {
  const { spool } = await openSpool(t);
  const refusal = new BursarError('bad_request', 'two files in one form');
  async function* refusing() {
    yield Buffer.from('half');
    throw refusal;
  }
  await assert.rejects(spool.receive(refusing(), roomy), refusal);
});

test('trouble with the disk is told apart from trouble with the body', async (t) => {
  const { spool, directory } = await openSpool(t);
  await chmod(join(directory, 'incoming'), 0o500);
  await runUnprivileged(async () => {
    await assert.rejects(spool.receive(inPieces(bodyOf(100_000), 50_000), roomy), diskTroubleIn(directory));
  });
});

test('so is trouble with the disk when a file is kept, which can be kept later', async (t) => {
  const { spool, directory } = await openSpool(t);
  const file = await receiveFile(spool, 'x');
  await chmod(directory, 0o500);
  await runUnprivileged(async () => await assert.rejects(spool.storeForJob(file, jobId), diskTroubleIn(directory)));
  await chmod(directory, 0o700);
  assert.deepEqual(await spool.list(), []);
  await spool.storeForJob(file, jobId);
  assert.deepEqual(await spool.list(), [jobId]);
});

const diskTroubleIn = (directory: string) => (error: unknown) => {
  assert(error instanceof BursarError);
  assert.equal(error.code, 'internal');
  assert.equal(error.message.includes(directory), false);
  return true;
};

test('a kept file is the zip of its job, and no longer incoming', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  assert.equal(spool.pathOf(jobId), join(directory, `${jobId}.zip`));
  assert.equal((await readFile(spool.pathOf(jobId), 'utf8')).trimEnd(), 'zip');
  assert.deepEqual(await incoming(), []);
});

test('a discarded upload is gone, and discarding it again does nothing', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const upload: Pick<Upload, 'content'> = { content: { kind: 'file', path: await receiveFile(spool, 'zip') } };
  await spool.discard(upload);
  assert.deepEqual(await incoming(), []);
  await spool.discard(upload);
});

test('discarding a kept upload leaves the zip of the job alone', async (t) => {
  const { spool } = await openSpool(t);
  const path = await receiveFile(spool, 'zip');
  await spool.storeForJob(path, jobId);
  await spool.discard({ content: { kind: 'file', path } });
  assert.deepEqual(await spool.list(), [jobId]);
});

test('removing the zip of a job leaves none, and removing it again does nothing', async (t) => {
  const { spool } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await spool.remove(jobId);
  assert.deepEqual(await spool.list(), []);
  await spool.remove(jobId);
});

test('a zip that cannot be looked for is not said to be missing', async (t) => {
  const { spool, directory } = await openSpool(t);
  assert.equal(await spool.has(jobId), false);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  assert.equal(await spool.has(jobId), true);
  // The place where its folder should be.
  const elsewhere = createSpool(join(spool.pathOf(jobId), 'spool'));
  await assert.rejects(elsewhere.has(jobId), diskTroubleIn(directory));
});

test('the list has the jobs with a zip, and nothing else that lies about', async (t) => {
  const { spool, directory } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, '1'), 'B-2');
  await spool.storeForJob(await receiveFile(spool, '2'), 'A-1');
  await writeFile(join(directory, 'notes.zip'), 'of the operator');
  await writeFile(join(directory, 'C-3'), 'no zip');
  await mkdir(join(directory, 'lost+found'));
  assert.deepEqual((await spool.list()).sort(), ['A-1', 'B-2']);
});

test('uploads that arrive at the same time do not disturb one another', async (t) => {
  const { spool } = await openSpool(t);
  const texts = Array.from({ length: 20 }, (_, i) => `upload ${i}`);
  const uploads = await Promise.all(texts.map((text) => spool.receive(chunks(text, text), roomy)));
  const stored = await Promise.all(uploads.map(async (upload) => (await bytesOf(upload)).toString()));
  assert.deepEqual(
    stored,
    texts.map((text) => text + text),
  );
});

test('what is not a job id never becomes a path', async (t) => {
  const { spool } = await openSpool(t);
  const file = await receiveFile(spool, 'zip');
  for (const wrong of ['', '..', '../A', 'A/B', 'a', 'A.zip', 'A\n', 'A\0']) {
    assert.throws(() => spool.pathOf(wrong), { code: 'internal' });
    await assert.rejects(spool.storeForJob(file, wrong), { code: 'internal' });
    await assert.rejects(spool.remove(wrong), { code: 'internal' });
  }
});

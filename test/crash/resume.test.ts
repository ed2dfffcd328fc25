import assert from 'node:assert/strict';
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, test } from 'node:test';
import { callerOf, type Job } from '../support/api.ts';
import { pathOf } from '../support/jobs.ts';
import { parseSse } from '../support/parse-sse.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { zipOf } from '../support/zip.ts';

const gigabyte = 1_000_000_000;

describe('a server that is killed and started again in the middle of', () => {
  let server: ServerProcess;
  let token: string;
  before(async () => {
    server = await spawnServer();
    token = server.userToken;
  });
  after(() => server.dispose());

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(server.url + path, { headers: { authorization: `Bearer ${token}`, ...headers } });
  const submit = async (script: string) => {
    const zip = await zipOf({ 'run.sh': `#!/bin/sh\n${script}\n` });
    return (await callerOf(server.url, token).submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip)).body;
  };

  /** Reads an answer to its end, or until the server is killed, once so many bytes have come. */
  async function read(response: Response, take: (chunk: Buffer) => void, killAfter = Number.POSITIVE_INFINITY) {
    let bytes = 0;
    let killed: Promise<void> | undefined;
    try {
      for await (const chunk of response.body ?? []) {
        take(Buffer.from(chunk));
        bytes += chunk.length;
        if (bytes >= killAfter) killed ??= server.kill();
      }
      assert.equal(killed, undefined, 'a broken answer looked like a whole one');
    } catch (error) {
      if (killed === undefined) throw error;
      await killed;
      server = await spawnServer({ data: server.data });
    }
    return bytes;
  }

  const lines = Array.from({ length: 300 }, (_, index) => `line ${index + 1} ü\n`).join('');
  const printing = 'for i in $(seq 300); do echo "line $i ü"; sleep 0.02; done';

  test('a followed log, as text: the rest comes from the byte on at which it broke off', async () => {
    const job = await submit(printing);
    const chunks: Buffer[] = [];
    const take = (chunk: Buffer) => chunks.push(chunk);
    const got = await read(await get(`${pathOf(job)}log/?follow=1`), take, 1000);
    assert.ok(got >= 1000 && got < Buffer.byteLength(lines));
    await read(await get(`${pathOf(job)}log/?follow=1&offset=${got}`), take);
    assert.equal(String(Buffer.concat(chunks)), lines);
  });

  test('a followed log, as events: the rest comes after the last event', async () => {
    const job = await submit(printing);
    const accept = { accept: 'text/event-stream' };
    const collect = async (headers: Record<string, string>, killAfter?: number) => {
      const chunks: Buffer[] = [];
      await read(await get(`${pathOf(job)}log/?follow=1`, headers), (chunk) => chunks.push(chunk), killAfter);
      return parseSse(String(Buffer.concat(chunks)));
    };
    const first = await collect(accept, 2000);
    const rest = await collect({ ...accept, 'last-event-id': first.at(-1)?.id ?? '' });
    assert.equal([...first, ...rest].map(({ data }) => JSON.parse(data).text ?? '').join(''), lines);
    assert.deepEqual([first.at(-1)?.event, rest.at(-1)?.event], ['message', 'end']);
  });

  test('a download of a gigabyte: it goes on with Range and If-Range, and every byte is right', async () => {
    // Mostly holes, so that it costs no space, with something here and there to tell its parts from each other.
    const job = await submit(
      `truncate -s ${gigabyte} big; for i in $(seq 0 99); do echo "part $i" | dd of=big bs=1 seek=$((i * 9999991)) conv=notrunc status=none; done`,
    );
    await callerOf(server.url, token).finished(job);
    const path = `/files/hpc_one/proj_hpc_one_01/${job.job_id}/big`;
    const hash = createHash('sha256');
    const whole = await strongly(path);
    const etag = whole.headers.get('etag') ?? '';
    assert.equal(whole.headers.get('content-length'), String(gigabyte));
    const got = await read(whole, (chunk) => hash.update(chunk), gigabyte / 3);
    assert.ok(got < gigabyte, 'it was broken off');
    const resumed = await get(path, { range: `bytes=${got}-`, 'if-range': etag });
    assert.deepEqual([resumed.status, resumed.headers.get('etag')], [206, etag]);
    assert.equal(got + (await read(resumed, (chunk) => hash.update(chunk))), gigabyte);
    assert.equal(hash.digest('hex'), (await hashOf(job, 'big')).digest('hex'));
  });

  /** The file, once its tag is a strong one. */
  async function strongly(path: string): Promise<Response> {
    for (;;) {
      const response = await get(path);
      if (response.headers.get('etag')?.startsWith('"')) return response;
      await response.body?.cancel();
    }
  }

  async function hashOf(job: Job, name: string): Promise<Hash> {
    const hash = createHash('sha256');
    await pipeline(createReadStream(join(server.data, 'workspaces', job.job_id, 'files', name)), hash);
    return hash;
  }
});

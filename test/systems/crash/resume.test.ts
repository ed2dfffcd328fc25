import assert from 'node:assert/strict';
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCaller, type Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript } from '../../support/jobs.ts';
import { isLongRun } from '../../support/long-run.ts';
import { parseSse } from '../../support/parse-sse.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { createZip } from '../../support/zip.ts';

/** One gigabyte in `npm run test:long`. */
const fileBytes = isLongRun ? 1_000_000_000 : 100_000_000;

describe('resuming after the server was killed and restarted', () => {
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
    const zip = await createZip({ 'run.sh': `#!/bin/sh\n${script}\n` });
    return (await createCaller(server.url, token).submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip)).body;
  };

  /** Reads a response to its end. With `killAfterBytes`, kills and restarts the server after this many bytes. */
  async function read(response: Response, onChunk: (chunk: Buffer) => void, killAfterBytes = Number.POSITIVE_INFINITY) {
    let bytes = 0;
    let kill: Promise<void> | undefined;
    try {
      for await (const chunk of response.body ?? []) {
        onChunk(Buffer.from(chunk));
        bytes += chunk.length;
        if (bytes >= killAfterBytes) kill ??= server.kill();
      }
      assert.equal(kill, undefined, 'a truncated response looked complete');
    } catch (error) {
      if (kill === undefined) throw error;
      await kill;
      server = await spawnServer({ data: server.data });
    }
    return bytes;
  }

  const lines = Array.from({ length: 200 }, (_, index) => `line ${index + 1} ü\n`).join('');
  const print = (numbers: string) => `for i in $(seq ${numbers}); do echo "line $i ü"; done`;
  /** Half of the lines are printed before the server is killed. */
  const printLines = `${print('100')}; ${waitForGoScript}; ${print('101 200')}`;

  test('a followed log as text continues at the byte offset', async () => {
    const job = await submit(printLines);
    const chunks: Buffer[] = [];
    const onChunk = (chunk: Buffer) => chunks.push(chunk);
    const got = await read(await get(`${jobPath(job)}log/?follow=1`), onChunk, 500);
    assert.ok(got >= 500 && got < Buffer.byteLength(lines));
    releaseJob(server, job);
    await read(await get(`${jobPath(job)}log/?follow=1&offset=${got}`), onChunk);
    assert.equal(String(Buffer.concat(chunks)), lines);
  });

  test('a followed log as server-sent events continues after Last-Event-ID', async () => {
    const job = await submit(printLines);
    const accept = { accept: 'text/event-stream' };
    const collect = async (headers: Record<string, string>, killAfterBytes?: number) => {
      const chunks: Buffer[] = [];
      await read(await get(`${jobPath(job)}log/?follow=1`, headers), (chunk) => chunks.push(chunk), killAfterBytes);
      return parseSse(String(Buffer.concat(chunks)));
    };
    const first = await collect(accept, 500);
    releaseJob(server, job);
    const rest = await collect({ ...accept, 'last-event-id': first.at(-1)?.id ?? '' });
    assert.equal([...first, ...rest].map(({ data }) => JSON.parse(data).text ?? '').join(''), lines);
    assert.deepEqual([first.at(-1)?.event, rest.at(-1)?.event], ['message', 'end']);
  });

  test('a large download continues with Range and If-Range, and all bytes are correct', async () => {
    // A sparse file that takes little space, with text at intervals so that its parts differ.
    const job = await submit(
      `truncate -s ${fileBytes} big; for i in $(seq 0 99); do echo "part $i" | dd of=big bs=1 seek=$((i * ${fileBytes / 100 - 9})) conv=notrunc status=none; done`,
    );
    await createCaller(server.url, token).waitUntilFinished(job);
    const path = `/files/hpc_one/proj_hpc_one_01/${job.job_id}/big`;
    const hash = createHash('sha256');
    const response = await getWithStrongTag(path);
    const etag = response.headers.get('etag') ?? '';
    assert.equal(response.headers.get('content-length'), String(fileBytes));
    const got = await read(response, (chunk) => hash.update(chunk), fileBytes / 3);
    assert.ok(got < fileBytes, 'the download was interrupted');
    const resumed = await get(path, { range: `bytes=${got}-`, 'if-range': etag });
    assert.deepEqual([resumed.status, resumed.headers.get('etag')], [206, etag]);
    assert.equal(got + (await read(resumed, (chunk) => hash.update(chunk))), fileBytes);
    assert.equal(hash.digest('hex'), (await hashFile(job, 'big')).digest('hex'));
  });

  /** Requests the file until its ETag is a strong one. */
  async function getWithStrongTag(path: string): Promise<Response> {
    for (;;) {
      const response = await get(path);
      if (response.headers.get('etag')?.startsWith('"')) return response;
      await response.body?.cancel();
      await sleep(100);
    }
  }

  async function hashFile(job: Job, name: string): Promise<Hash> {
    const hash = createHash('sha256');
    await pipeline(createReadStream(join(server.data, 'workspaces', job.job_id, 'files', name)), hash);
    return hash;
  }
});

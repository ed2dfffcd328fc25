import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, test } from 'node:test';
import { ZipFile } from 'yazl';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { jobPath } from '../../../support/jobs.ts';
import { isLongRun } from '../../../support/long-run.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { createZip } from '../../../support/zip.ts';

const blockBytes = 1_000_000;
/** Several times the memory that the server may take for it, or one gigabyte. */
const blocks = isLongRun ? 1000 : 100;
const fileBytes = blockBytes * blocks;
const maxGrowthKb = 64 * 1024;

describe('a large file', () => {
  let server: ServerProcess;
  let me: Caller;
  let job: Job;
  /** The SHA-256 of the uploaded content. */
  let sentHash: string;
  before(async () => {
    server = await spawnServer();
    me = createCaller(server.url, server.userToken);
    // Warm up every code path before memory is measured.
    const { body } = await me.submit(
      '/jobs/hpc_one/',
      { command: 'true' },
      await createZip({ a: randomBytes(9_000_000) }),
    );
    await me.waitUntilFinished(body);
    for (const path of ['a', '?archive=zip']) await download(body, path, () => undefined);
  });
  after(() => server.dispose());

  const residentKb = () =>
    Number(execFileSync('ps', ['-o', 'rss=', '-p', String(server.process.pid)], { encoding: 'utf8' }));

  /** Measures the largest growth of the server's memory during an action. */
  async function measureGrowthKb(act: () => Promise<void>): Promise<number> {
    const before = residentKb();
    let max = before;
    const timer = setInterval(() => {
      max = Math.max(max, residentKb());
    }, 100);
    await act().finally(() => clearInterval(timer));
    return Math.max(max, residentKb()) - before;
  }

  async function download(of: Job, path: string, take: (chunk: Buffer) => void): Promise<number> {
    const url = `${server.url}/files/hpc_one/proj_hpc_one_01/${of.job_id}/${path}`;
    const clientRequest = request(url, { headers: { authorization: `Bearer ${server.userToken}` } }).end();
    const [response] = (await once(clientRequest, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 200);
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      take(chunk);
      bytes += chunk.length;
    }
    return bytes;
  }

  test('uploading it in an uncompressed zip takes at most 64 MB of memory', async (t) => {
    const hash = createHash('sha256');
    const block = randomBytes(blockBytes);
    const content = Readable.from(
      (function* () {
        for (let index = 0; index < blocks; index += 1) {
          block.writeUInt32LE(index);
          const copy = Buffer.from(block);
          hash.update(copy);
          yield copy;
        }
      })(),
    );
    const zip = new ZipFile();
    zip.addReadStream(content, 'big.bin', { compress: false });
    zip.end();
    const grown = await measureGrowthKb(async () => {
      const upload = request(`${server.url}/jobs/hpc_one/`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${server.userToken}`,
          'content-disposition': 'attachment; filename=job.zip',
          payload: JSON.stringify({ command: 'wc -c < big.bin' }),
        },
      });
      const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
      await pipeline(zip.outputStream, upload);
      const [response] = await answered;
      assert.equal(response.statusCode, 201);
      job = await me.waitUntilFinished(JSON.parse(await text(response)));
      assert.equal(job.stage, 'SUCCESSFUL');
    });
    sentHash = hash.digest('hex');
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
    const log = await fetch(`${server.url}${jobPath(job)}log/`, {
      headers: { authorization: `Bearer ${server.userToken}` },
    });
    assert.equal(Number(await log.text()), fileBytes);
  });

  test('downloading the file takes at most 64 MB of memory, and its content is correct', async (t) => {
    const hash = createHash('sha256');
    const grown = await measureGrowthKb(async () => {
      assert.equal(await download(job, 'big.bin', (chunk) => hash.update(chunk)), fileBytes);
    });
    assert.equal(hash.digest('hex'), sentHash);
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
  });

  test('downloading it as a zip takes at most 64 MB of memory', async (t) => {
    const grown = await measureGrowthKb(async () => {
      const bytes = await download(job, '?archive=zip', () => undefined);
      assert.ok(bytes > fileBytes && bytes < fileBytes + 1000, `${bytes} bytes`);
    });
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
  });
});

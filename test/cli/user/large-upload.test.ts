import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createWriteStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, test } from 'node:test';
import { zipChunks } from '../../../src/files/zip/zip-writer.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { type CuttingProxy, startCuttingProxy } from '../../support/cutting-proxy.ts';
import { isLongRun } from '../../support/long-run.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createSubmitFixture, type SubmitFixture } from './submit-fixture.ts';

const blockBytes = 100_000;
/** More than the proxy lets through before each cut: ten megabytes, or one gigabyte. */
const blocks = isLongRun ? 10_000 : 100;

describe('a large upload', () => {
  let server: TestServer;
  let proxy: CuttingProxy;
  let me: Caller;
  let fixture: SubmitFixture;
  before(async () => {
    server = await startServer();
    proxy = await startCuttingProxy(server.url);
    me = createCaller(server.url, server.userToken);
    fixture = createSubmitFixture(proxy.url, server.userToken);
  });
  after(async () => {
    fixture.dispose();
    await proxy.close();
    await server.dispose();
  });

  /** Writes a zip with one uncompressed file. Returns the SHA-256 of the file. */
  async function writeZip(path: string): Promise<string> {
    const hash = createHash('sha256');
    const block = randomBytes(blockBytes);
    function* content() {
      for (let index = 0; index < blocks; index++) {
        block.writeUInt32LE(index);
        const copy = Buffer.from(block);
        hash.update(copy);
        yield copy;
      }
    }
    async function* entries() {
      const open = async () => Readable.from(content());
      yield { kind: 'file', path: 'big.bin', mode: 0o644, modifiedAt: 0, size: blockBytes * blocks, open } as const;
    }
    await pipeline(zipChunks(entries()), createWriteStream(path));
    return hash.digest('hex');
  }

  test('arrives once although its connection is cut five times', async (t) => {
    const startedAt = performance.now();
    const path = join(fixture.folder({ 'other.txt': '' }), 'big.zip');
    const sentHash = await writeZip(path);
    t.diagnostic(`zip written after ${Math.round(performance.now() - startedAt)} ms`);
    for (const percent of [1, 30, 60, 90, 5]) proxy.cutAfter('up', (percent / 100) * blocks * blockBytes);
    const args = ['submit', path, '--command', 'sha256sum < big.bin', '--watch', '--title', 'large'];
    const { code, stdout, stderr } = await fixture.run(...args);
    assert.deepEqual([code, stdout], [0, `${sentHash}  -\n`], stderr);
    assert.equal(proxy.pendingCuts(), 0);
    const uploads = proxy.requests().filter((line) => line.startsWith('POST /jobs/'));
    assert.equal(uploads.length, 6);
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    assert.deepEqual(
      jobs.map(({ title }) => title),
      ['large'],
    );
    assert.deepEqual(readdirSync(join(server.data, 'spool', 'incoming')), []);
  });
});

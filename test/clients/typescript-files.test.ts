import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import {
  Bursar,
  type JobHandle,
  openFolder,
  openZip,
  saveArchive,
  saveFile,
  saveFiles,
  type UploadSource,
} from '#client';
import { collect } from '../support/collect.ts';
import { type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { readZip } from '../support/unzip.ts';

// Folders and zips as input, and files of jobs on disk.

const data = randomBytes(1_500_000);
let server: TestServer;
let proxy: CuttingProxy;
let bursar: Bursar;
let folder: string;
let job: JobHandle;
const lines: string[] = [];

before(async () => {
  server = await startServer();
  proxy = await startCuttingProxy(server.url);
  bursar = new Bursar({ url: proxy.url, token: server.userToken, onRequest: (line) => lines.push(line) });
  folder = await mkdtemp(join(tmpdir(), 'bursar-client-files-'));
  const input = join(folder, 'input');
  await mkdir(join(input, 'deep/empty'), { recursive: true });
  await writeFile(join(input, 'deep/data.bin'), data);
  await writeFile(join(input, 'run.sh'), '#!/bin/sh\ncp deep/data.bin out.bin; echo ok\n', { mode: 0o755 });
  await writeFile(join(input, 'empty.txt'), '');
  await writeFile(join(input, 'text.txt'), 'line\n'.repeat(10_000));
  await symlink('deep/data.bin', join(input, 'link.bin'));
  await writeFile(join(input, 'secret.key'), 'x');
  job = await bursar.submit({
    hpc: 'hpc_one',
    command: './run.sh',
    input: await openFolder(input, { filter: (path) => path !== 'secret.key' }),
  });
  await job.wait();
});
after(async () => {
  await proxy.close();
  await server.dispose();
  await rm(folder, { recursive: true });
});

const packFolder = async (path: string) => await pack(await openFolder(path));
const pack = async (source: UploadSource) => await buffer(source.open(() => undefined) as ReadableStream<Uint8Array>);

describe('a folder', () => {
  test('arrives as it is, without what is filtered out, and with files instead of links', async () => {
    assert.equal((await collect(job.log())).join(''), 'ok\n');
    const paths = (await job.files()).map(({ path }) => path);
    assert.deepEqual(paths, ['deep/data.bin', 'empty.txt', 'link.bin', 'out.bin', 'run.sh', 'text.txt']);
    assert.deepEqual(Buffer.from(await (await job.download('link.bin')).bytes()), data);
  });

  test('is sent without the files that .bursarignore names, in the syntax of .gitignore', async () => {
    const input = join(folder, 'ignoring');
    const wanted = ['.env', '.gitignore', 'keep.dat', 'out.txt', 'sub/bursar.yaml', 'sub/out/x'];
    const ignored = ['.DS_Store', '.bursar/sweep.jsonl', '.git/config', 'bursar.yaml', 'sub/.git/x'];
    const listed = ['a.dat', 'out/x', 'sub/b.dat', 'sub/cache/y'];
    for (const path of [...wanted, ...ignored, ...listed]) {
      await mkdir(dirname(join(input, path)), { recursive: true });
      await writeFile(join(input, path), '');
    }
    const sent = async (filter?: (path: string) => boolean) =>
      (await openFolder(input, { filter })).entries
        .filter(({ kind }) => kind === 'file')
        .map(({ path }) => path)
        .sort();
    assert.deepEqual(await sent(), [...wanted, ...listed].sort());
    await writeFile(join(input, '.bursarignore'), '# data\n*.dat\n!keep.dat\n/out/\ncache/\n');
    assert.deepEqual(await sent(), wanted);
    assert.deepEqual(
      await sent((path) => path !== '.env'),
      wanted.filter((path) => path !== '.env'),
    );
    await writeFile(join(input, '.bursarignore'), '*\n!bursar.yaml\n');
    assert.deepEqual(await sent(), ['bursar.yaml']);
  });

  test('gives the same bytes every time, which are a zip of its files', async () => {
    const input = join(folder, 'input');
    const source = await openFolder(input);
    let counted = 0;
    const stream = source.open((count) => {
      counted += count;
    });
    const zip = await buffer(stream as ReadableStream<Uint8Array>);
    assert.equal(counted, source.totalBytes);
    assert.deepEqual(await packFolder(input), zip);
    const path = join(folder, 'packed.zip');
    await writeFile(path, zip);
    const contents = await readZip(zip);
    assert.equal(contents.get('run.sh')?.length, 44);
    assert.equal(contents.get('text.txt')?.length, 50_000);
    assert.equal(contents.get('deep/empty/')?.length, 0);
    const opened = await openZip(path);
    assert.deepEqual([opened.name, opened.totalBytes], ['packed.zip', zip.length]);
    assert.deepEqual(await pack(opened), zip);
  });

  test('with a link to nothing, or to itself, is refused with the reason', async () => {
    const input = join(folder, 'links');
    await mkdir(input);
    await symlink('nowhere', join(input, 'broken'));
    await assert.rejects(openFolder(input), { code: 'invalid_input', message: /broken is a link to nothing/ });
    await rm(join(input, 'broken'));
    await symlink('.', join(input, 'loop'));
    await assert.rejects(openFolder(input), /loop is a link to a folder that it is in/);
    assert.equal((await openFolder(input, { filter: (path) => path !== 'loop' })).entries.length, 0);
  });

  test('whose file disappears before it is sent fails, and is not tried again', async () => {
    const input = join(folder, 'changing');
    await mkdir(input);
    await writeFile(join(input, 'a.txt'), 'a');
    const source = await openFolder(input);
    await rm(join(input, 'a.txt'));
    await assert.rejects(bursar.submit({ hpc: 'hpc_one', command: 'true', input: source }), { code: 'ENOENT' });
  });
});

test('a zip file can be named by its path', async () => {
  const zip = join(folder, 'named.zip');
  await writeFile(zip, await packFolder(join(folder, 'input')));
  const named = await bursar.submit({ hpc: 'hpc_one', command: 'ls', input: zip });
  assert.equal((await named.wait()).stage, 'SUCCESSFUL');
});

describe('downloads', () => {
  before(async () => {
    const url = `${server.url}/files/hpc_one/${job.data.project_name}/${job.job_id}/out.bin`;
    const headers = { authorization: `Bearer ${server.userToken}` };
    // A file that was changed a moment ago may change again within the precision of its time, so that no part of it is sent.
    await until('the version of the file is certain', async () => {
      const { headers: received } = await fetch(url, { method: 'HEAD', headers });
      return received.get('etag')?.startsWith('"') || undefined;
    });
  });

  test('continue after a cut where they stopped', async () => {
    for (const bytes of [600_000, 400_000]) proxy.cutAfter('down', bytes);
    lines.length = 0;
    const download = await job.download('out.bin');
    assert.equal(download.size, data.length);
    assert.deepEqual(Buffer.from(await download.bytes()), data);
    assert.deepEqual(
      lines.map((line) => line.match(/ (\d{3}) /)?.[1]),
      ['200', '206', '206'],
    );
  });

  test('that were given up continue in the next call, if the file is the same', async () => {
    const target = join(folder, 'saved/out.bin');
    await giveUp(target);
    assert.ok((await stat(`${target}.part`)).size > 0);
    lines.length = 0;
    await saveFile(job, 'out.bin', target);
    assert.match(lines.join(), / 206 /);
    assert.deepEqual(await readFile(target), data);
    assert.deepEqual(await readdir(join(folder, 'saved')), ['out.bin']);
  });

  test('that were given up start again, if the file has changed', async () => {
    const target = join(folder, 'changed/out.bin');
    await giveUp(target);
    const other = randomBytes(700_000);
    const workspace = join(server.data, 'workspaces', job.job_id, 'files', 'out.bin');
    await chmod(workspace, 0o644);
    await writeFile(workspace, other);
    await saveFile(job, 'out.bin', target);
    assert.deepEqual(await readFile(target), other);
  });

  test('of all files leave those alone that are there', async () => {
    const target = join(folder, 'all');
    const saved = await saveFiles(job, target);
    assert.equal(saved.length, 6);
    lines.length = 0;
    await rm(join(target, 'run.sh'));
    let last = 0;
    await saveFiles(job, target, {
      onProgress: ({ allBytes }) => {
        last = allBytes;
      },
    });
    assert.equal(
      last,
      saved.reduce((sum, { size }) => sum + size, 0),
    );
    assert.deepEqual(
      lines.map((line) => line.match(/\/files\/\S*\/(\S*) /)?.[1]),
      ['', 'run.sh'],
    );
  });

  test('of an archive have all files', async () => {
    const target = join(folder, 'archive.zip');
    await saveArchive(job, target);
    assert.ok((await readZip(await readFile(target))).has('deep/data.bin'));
  });
});

/** Saves the first part of the file. */
async function giveUp(target: string): Promise<void> {
  const abort = new AbortController();
  const onProgress = () => abort.abort(new Error('given up'));
  await assert.rejects(saveFile(job, 'out.bin', target, { signal: abort.signal, onProgress }));
}

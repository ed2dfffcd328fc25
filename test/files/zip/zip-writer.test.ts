import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { openPromise } from 'yauzl';
import type { ArchiveEntry } from '../../../src/files/workspaces/workspace-reader.ts';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { readZip } from '../../support/unzip.ts';
import { temporaryFolder } from '../temporary.ts';

const run = promisify(execFile);

const createEntry = (path: string, content: Iterable<Buffer>, size: number, more = {}): ArchiveEntry => ({
  kind: 'file',
  path,
  modifiedAt: Date.UTC(2026, 4, 3, 2, 1, 7),
  mode: 0o640,
  size,
  open: async () => Readable.from(content, { objectMode: false }),
  ...more,
});

/** Skips blocks of zeros, so that gigabytes of them take no disk space. */
async function writeSparse(path: string, bytes: AsyncIterable<Buffer>) {
  const file = await open(path, 'w');
  let position = 0;
  for await (const chunk of bytes) {
    if (chunk.length < 65_536 || chunk[0] !== 0) await file.write(chunk, 0, chunk.length, position);
    position += chunk.length;
  }
  await file.close();
}

async function* toAsync<T>(items: Iterable<T>) {
  yield* items;
}

/** Verifies all checksums with Python, an independent zip reader, and prints name, size, mode and year of each entry. */
const pythonScript = `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for i in z.infolist(): print(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time[0], sep='|')`;

describe('writeZip', () => {
  test('writes names, sizes, modes and checksums that another program can read', async (t) => {
    const path = join(await temporaryFolder(t), 'x.zip');
    const folder: ArchiveEntry = { kind: 'folder', path: 'empty', modifiedAt: 0, mode: 0o755 };
    const farFuture = { modifiedAt: 99_999_999_999_999, mode: 0o755 };
    const zip = await writeZip(
      toAsync([folder, createEntry('grüße', [Buffer.from('hello')], 5), createEntry('x', [], 0, farFuture)]),
    );
    await pipeline(zip, createWriteStream(path));
    const { stdout } = await run('python3', ['-c', pythonScript, path]);
    assert.deepEqual(stdout.trim().split('\n'), [
      'empty/|0|0o40755|1980',
      'grüße|5|0o100640|2026',
      'x|0|0o100755|2038',
    ]);
  });

  test('writes an empty zip if there are no entries', async () => {
    assert.equal((await readZip(await buffer(await writeZip(toAsync([]))))).size, 0);
  });

  test('writes zip64 for more than 65,535 files, and for an entry and offsets beyond 4 GiB', async (t) => {
    const path = join(await temporaryFolder(t), 'x.zip');
    const block = Buffer.alloc(1 << 20);
    const blocks = 4200;
    const size = block.length * blocks;
    function* content() {
      for (let index = 0; index < blocks; index += 1) yield block;
    }
    function* entries() {
      yield createEntry('large', content(), size);
      for (let index = 0; index < 66_000; index += 1) yield createEntry(`f${index}`, [Buffer.from('x')], 1);
    }
    await writeSparse(path, await writeZip(toAsync(entries())));
    const zip = await openPromise(path);
    let count = 0;
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName === 'large') assert.equal(entry.uncompressedSize, size);
      if (count === 60_000) assert.equal(String(await buffer(await zip.openReadStreamPromise(entry))), 'x');
      count += 1;
    }
    assert.equal(count, 66_001);
  });

  test('rejects if the first entry cannot be read', async () => {
    // biome-ignore lint/correctness/useYield: fails before its first entry
    async function* failing(): AsyncGenerator<ArchiveEntry> {
      throw new Error('on purpose');
    }
    await assert.rejects(writeZip(failing()), /on purpose/);
  });

  test('ends the iteration of the entries when the stream is destroyed before it is read', async () => {
    const ended = Promise.withResolvers<void>();
    async function* entries() {
      try {
        yield createEntry('a', [], 0);
      } finally {
        ended.resolve();
      }
    }
    (await writeZip(entries())).destroy();
    await ended.promise;
  });

  test('closes the open content when the stream is destroyed', async () => {
    let content: Readable | undefined;
    const entry = createEntry('endless', [], 1, {
      open: async () => {
        content = new Readable({ read: () => content?.push(Buffer.alloc(65_536)) });
        return content;
      },
    });
    let bytes = 0;
    for await (const chunk of await writeZip(toAsync([entry]))) {
      bytes += chunk.length;
      if (bytes > 1_000_000) break;
    }
    assert.equal(content?.destroyed, true);
  });

  test('fails the stream when the content of an entry fails', async () => {
    const broken = createEntry('broken', [], 1, {
      open: async () =>
        new Readable({
          read() {
            this.destroy(new Error('on purpose'));
          },
        }),
    });
    await assert.rejects(buffer(await writeZip(toAsync([broken]))), /on purpose/);
  });
});

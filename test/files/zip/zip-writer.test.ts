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
import { contentsOf } from '../../support/unzip.ts';
import { temporaryFolder } from '../temporary.ts';

const run = promisify(execFile);

const fileOf = (path: string, content: Iterable<Buffer>, size: number, more = {}): ArchiveEntry => ({
  kind: 'file',
  path,
  modifiedAt: Date.UTC(2026, 4, 3, 2, 1, 7),
  mode: 0o640,
  size,
  open: async () => Readable.from(content, { objectMode: false }),
  ...more,
});

/** Zeros are left out, so that gigabytes of them take no space. */
async function writeSparse(path: string, bytes: AsyncIterable<Buffer>) {
  const file = await open(path, 'w');
  let position = 0;
  for await (const chunk of bytes) {
    if (chunk.length < 65_536 || chunk[0] !== 0) await file.write(chunk, 0, chunk.length, position);
    position += chunk.length;
  }
  await file.close();
}

async function* each<T>(items: Iterable<T>) {
  yield* items;
}

/** What Python, which has a reader of its own, says of each entry: name, size, mode; it checks all the sums before. */
const inPython = `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for i in z.infolist(): print(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time[0], sep='|')`;

describe('a zip that is written as it goes', () => {
  test('is read by other programs: names, sizes, modes and sums', async (t) => {
    const path = join(await temporaryFolder(t), 'x.zip');
    const folder: ArchiveEntry = { kind: 'folder', path: 'empty', modifiedAt: 0, mode: 0o755 };
    const far = { modifiedAt: 99_999_999_999_999, mode: 0o755 };
    const zip = await writeZip(each([folder, fileOf('grüße', [Buffer.from('hello')], 5), fileOf('x', [], 0, far)]));
    await pipeline(zip, createWriteStream(path));
    const { stdout } = await run('python3', ['-c', inPython, path]);
    assert.deepEqual(stdout.trim().split('\n'), [
      'empty/|0|0o40755|1980',
      'grüße|5|0o100640|2026',
      'x|0|0o100755|2038',
    ]);
  });

  test('without entries is an empty zip', async () => {
    assert.equal((await contentsOf(await buffer(await writeZip(each([]))))).size, 0);
  });

  test('more than 65,535 files, and an entry and offsets beyond four gigabytes, use the larger format', async (t) => {
    const path = join(await temporaryFolder(t), 'x.zip');
    const block = Buffer.alloc(1 << 20);
    const blocks = 4200;
    const size = block.length * blocks;
    function* content() {
      for (let index = 0; index < blocks; index += 1) yield block;
    }
    function* entries() {
      yield fileOf('large', content(), size);
      for (let index = 0; index < 66_000; index += 1) yield fileOf(`f${index}`, [Buffer.from('x')], 1);
    }
    await writeSparse(path, await writeZip(each(entries())));
    const zip = await openPromise(path);
    let count = 0;
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName === 'large') assert.equal(entry.uncompressedSize, size);
      if (count === 60_000) assert.equal(String(await buffer(await zip.openReadStreamPromise(entry))), 'x');
      count += 1;
    }
    assert.equal(count, 66_001);
  });

  test('is abandoned with its reader: the content that was open is closed', async () => {
    let content: Readable | undefined;
    const entry = fileOf('endless', [], 1, {
      open: async () => {
        content = new Readable({ read: () => content?.push(Buffer.alloc(65_536)) });
        return content;
      },
    });
    let bytes = 0;
    for await (const chunk of await writeZip(each([entry]))) {
      bytes += chunk.length;
      if (bytes > 1_000_000) break;
    }
    assert.equal(content?.destroyed, true);
  });

  test('fails where an entry fails', async () => {
    const broken = fileOf('broken', [], 1, {
      open: async () =>
        new Readable({
          read() {
            this.destroy(new Error('on purpose'));
          },
        }),
    });
    await assert.rejects(buffer(await writeZip(each([broken]))), /on purpose/);
  });
});

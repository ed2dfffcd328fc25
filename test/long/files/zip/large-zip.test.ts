import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { openPromise } from 'yauzl';
import { writeZip } from '../../../../src/files/zip/zip-writer.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { createEntry, toAsync } from '../../../files/zip/archive-entries.ts';

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

test('writeZip writes zip64 for more than 65,535 files, and for an entry and offsets beyond 4 GiB', async (t) => {
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

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { type ArchiveEntry, writeZip } from '../../../src/files/zip/zip-writer.ts';
import { endRecords } from '../../../src/files/zip/zip-writer-records.ts';
import { readZip } from '../../support/unzip.ts';
import { createEntry, toAsync } from './archive-entries.ts';

describe('writeZip', () => {
  test('writes an empty zip if there are no entries', async () => {
    assert.equal((await readZip(await buffer(await writeZip(toAsync([]))))).size, 0);
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

test('many entries, a long directory and a large offset are written as zip64', () => {
  const firstSignature = (...sizes: Parameters<typeof endRecords>) =>
    endRecords(...sizes)
      .readUInt32LE(0)
      .toString(16);
  const [endOfDirectory, zip64EndOfDirectory] = ['6054b50', '6064b50'];
  assert.equal(firstSignature(65_534, 1000, 1000), endOfDirectory);
  assert.equal(firstSignature(65_535, 1000, 1000), zip64EndOfDirectory);
  assert.equal(firstSignature(1, 2 ** 32, 1000), zip64EndOfDirectory);
  assert.equal(firstSignature(1, 1000, 2 ** 32), zip64EndOfDirectory);
});

import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { fromBufferPromise } from 'yauzl';

/** The contents of a zip by their paths; folders are empty, and end in a slash. Throws unless all of it is sound. */
export async function readZip(zip: Buffer): Promise<Map<string, Buffer>> {
  const contents = new Map<string, Buffer>();
  const file = await fromBufferPromise(zip);
  for await (const entry of file.eachEntry()) {
    const content = await buffer(await file.openReadStreamPromise(entry));
    assert.equal(crc32(content), entry.crc32, entry.fileName);
    contents.set(entry.fileName, content);
  }
  return contents;
}

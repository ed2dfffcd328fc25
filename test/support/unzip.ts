import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';
import { fromBufferPromise } from 'yauzl';

/** Returns the contents of a zip by path. Folders end in a slash and are empty. Throws if the zip is invalid. */
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

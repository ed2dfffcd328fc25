// The server's rules for zips, and the writer of zips. Load this file with `import()`: it brings a zip reader with it.
import '../../../node-shim/globals.ts';
import { type InputListing, listZip as listZipOf } from '../../../../../src/files/zip/list-input.ts';
import { type ByteReader, createByteReader } from '../../../../../src/files/zip/zip-directory.ts';
import type { ZipLimits } from '../../../../../src/files/zip/zip-entries.ts';

export { createIgnoreRules } from '../../../../../src/files/zip/ignore-rules.ts';
export { listFolder } from '../../../../../src/files/zip/list-input.ts';
export { packFolder } from './pack-folder.ts';

/** Lists a zip. Only its directory is read, so that its size does not matter. */
export function listZip(zip: Blob, limits: ZipLimits): Promise<InputListing> {
  return listZipOf(blobReader(zip), limits);
}

function blobReader(blob: Blob): ByteReader {
  return createByteReader(blob.size, async (start, end) => Buffer.from(await blob.slice(start, end).arrayBuffer()));
}

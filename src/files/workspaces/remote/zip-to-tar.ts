import { Header, type HeaderData, Pax } from 'tar';
import { readContent } from '../../zip/zip-content.ts';
import type { CheckedZip } from '../../zip/zip-source.ts';

const blockBytes = 512;

/**
 * Converts a zip to a tar archive while it is read: nothing is written on this host. Throws `invalid_zip` for contents
 * that contradict the directory of the zip; the archive has no end then.
 */
export async function* zipToTar(zip: CheckedZip): AsyncGenerator<Buffer> {
  const mtime = new Date();
  for (const entry of zip.entries) {
    const { path, unpackedBytes: size, isExecutable } = entry;
    if (path === '') continue;
    if (entry.kind === 'folder') {
      yield tarHeader({ type: 'Directory', path: `${path}/`, mode: 0o700, mtime });
      continue;
    }
    yield tarHeader({ type: 'File', path, size, mode: isExecutable ? 0o755 : 0o644, mtime });
    yield* readContent(zip, entry);
    yield Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
  }
  yield Buffer.alloc(2 * blockBytes);
}

/** Long and non-ASCII paths, and sizes from 8 GB on, are in an extended header before the header. */
function tarHeader(data: HeaderData): Buffer {
  const header = new Header(data);
  const block = Buffer.alloc(blockBytes);
  return header.encode(block) ? Buffer.concat([new Pax(data).encode(), block]) : block;
}

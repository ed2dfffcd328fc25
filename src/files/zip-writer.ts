import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { ArchiveEntry } from './workspace-reader.ts';

/** Above this the format needs its larger fields, and it must be known before the content is. */
const zip64Bytes = 0xffff_fffe;
/** A zip knows times from 1980 on, in 32 bits. */
const timesMs = { from: Date.UTC(1980, 0, 2), to: 0x7fff_ffff * 1000 };

/**
 * A zip of entries as they come: one is open at a time, and nothing is kept of its content. Sizes and sums stand behind
 * each content, so a file that changes while it is read is in the zip as it was read, and the zip is whole. Contents are
 * not compressed, as the cores of this host are for everybody. When an entry fails, so does the stream.
 */
export function zipOf(entries: AsyncIterable<ArchiveEntry>): Readable {
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;

  async function addAll() {
    for await (const entry of entries) {
      if (output.destroyed) return;
      await add(entry);
    }
    zip.end();
  }

  async function add(entry: ArchiveEntry) {
    const path = safeName(entry.path);
    const mtime = new Date(Math.min(Math.max(entry.modifiedAt, timesMs.from), timesMs.to));
    if (entry.kind === 'folder') {
      zip.addEmptyDirectory(path, { mtime, mode: 0o040000 | entry.mode });
      return;
    }
    const content = await entry.open();
    if (content === undefined) return;
    const abandon = () => content.destroy();
    output.once('close', abandon);
    const forceZip64Format = entry.size > zip64Bytes;
    zip.addReadStream(content, path, { mtime, mode: 0o100000 | entry.mode, compress: false, forceZip64Format });
    await finished(content).finally(() => output.off('close', abandon));
  }

  addAll().catch((error) => output.destroy(error));
  return output;
}

/** Names that are harmless wherever the zip is unpacked: where a \ or a drive's letter means something, too. */
function safeName(path: string): string {
  return path.replaceAll('\\', '_').replace(/^([A-Za-z]):/, '$1_');
}

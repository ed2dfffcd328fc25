import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import type { ArchiveEntry } from '../workspaces/workspace-reader.ts';
import { descriptor, directoryRecord, endRecords, localHeader, type WrittenEntry } from './zip-format.ts';

/** A zip knows times from 1980 on, in 32 bits. */
const timesMs = { from: Date.UTC(1980, 0, 2), to: 0x7fff_ffff * 1000 };
const kinds = { file: 0o100000, folder: 0o040000 };
const chunkBytes = 256 * 1024;

/**
 * A zip of entries as they come: one is open at a time, and nothing is kept of its content. Sizes and sums stand behind
 * each content, so a file that changes while it is read is in the zip as it was read, and the zip is whole. Contents are
 * not compressed, as the cores of this host are for everybody. When an entry fails, so does the stream.
 *
 * (By hand, as the packages for it take quadratic time, or all the memory at the end, where there are very many files.)
 */
export function writeZip(entries: AsyncIterable<ArchiveEntry>): Readable {
  return Readable.from(zipBytes(entries), { objectMode: false, highWaterMark: chunkBytes });
}

async function* zipBytes(entries: AsyncIterable<ArchiveEntry>): AsyncGenerator<Buffer> {
  const directory = createDirectory();
  let offset = 0;
  for await (const archived of entries) {
    const content = archived.kind === 'file' ? await archived.open() : Readable.from([]);
    if (content === undefined) continue;
    const entry = entryOf(archived, offset);
    const head = localHeader(entry);
    yield head;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      entry.crc = crc32(chunk, entry.crc);
      entry.size += chunk.length;
      yield chunk;
    }
    const tail = descriptor(entry);
    yield tail;
    directory.add(directoryRecord(entry));
    offset += head.length + entry.size + tail.length;
  }
  yield* directory.blocks();
  yield endRecords(directory.count(), directory.length(), offset);
}

function entryOf(archived: ArchiveEntry, offset: number): WrittenEntry {
  const { path, mode, modifiedAt, kind } = archived;
  return {
    name: Buffer.from(kind === 'folder' ? `${safeName(path)}/` : safeName(path)),
    mode: kinds[kind] | mode,
    time: new Date(Math.min(Math.max(modifiedAt, timesMs.from), timesMs.to)),
    offset,
    size: 0,
    crc: 0,
    isLarge: kind === 'file' && archived.size >= 0xffff_ffff,
  };
}

/** Names that are harmless wherever the zip is unpacked: where a \ or a drive's letter means something, too. */
function safeName(path: string): string {
  return path.replaceAll('\\', '_').replace(/^([A-Za-z]):/, '$1_');
}

/** Collects records in blocks: of very many small buffers each costs more than what is in it. */
function createDirectory() {
  const blocks: Buffer[] = [];
  let records: Buffer[] = [];
  let [count, length, open] = [0, 0, 0];
  const close = () => {
    blocks.push(Buffer.concat(records));
    records = [];
    open = 0;
  };
  return {
    add(record: Buffer) {
      records.push(record);
      count += 1;
      length += record.length;
      open += record.length;
      if (open >= chunkBytes) close();
    },
    *blocks() {
      close();
      yield* blocks;
    },
    count: () => count,
    length: () => length,
  };
}

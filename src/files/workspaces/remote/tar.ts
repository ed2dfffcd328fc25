import { on } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Header, type HeaderData, Parser, Pax, type ReadEntry } from 'tar';
import { type CheckedZip, readContent } from '../../zip/zip-content.ts';
import type { ArchiveEntry } from '../../zip/zip-writer.ts';

/** Reads the files and folders of a tar stream one by one. Content that was not opened is skipped at the next entry. */
export async function* readTarEntries(archive: Readable): AsyncGenerator<ArchiveEntry> {
  const parser = new Parser({ strict: true });
  const entries = on(parser, 'entry', { close: ['end'] });
  const parsing = pipeline(archive, toWritable(parser));
  parsing.catch((error) => parser.abort(error));
  try {
    for await (const [entry] of entries as AsyncIterable<[ReadEntry]>) {
      const path = entry.path.replace(/^\.\/|\/$/g, '');
      const metadata = { path, modifiedAt: entry.mtime?.getTime() ?? 0, mode: (entry.mode ?? 0) & 0o777 };
      if (entry.type === 'Directory' && path !== '.' && path !== '') yield { ...metadata, kind: 'folder' };
      else if (entry.type === 'File') {
        yield { ...metadata, kind: 'file', size: entry.size, open: async () => Readable.from(entry) };
      }
      entry.resume();
    }
    await parsing;
  } finally {
    archive.destroy();
    await parsing.catch(() => undefined);
  }
}

/** The tar parser is not a Node stream: it signals backpressure by its return value and a 'drain' event. */
function toWritable(parser: Parser): Writable {
  return new Writable({
    write: (chunk, _encoding, done) => {
      if (parser.write(chunk)) done();
      else parser.once('drain', () => done());
    },
    final: (done) => {
      parser.end();
      done();
    },
  });
}

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

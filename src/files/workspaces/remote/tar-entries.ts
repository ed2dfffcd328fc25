import { on } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Parser, type ReadEntry } from 'tar';
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

import { on } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Parser, type ReadEntry } from 'tar';
import type { ArchiveEntry } from '../workspace-reader.ts';

/** The files and folders in a tar stream, one at a time: what is not opened is skipped when the next is asked for. */
export async function* readTarEntries(archive: Readable): AsyncGenerator<ArchiveEntry> {
  const parser = new Parser({ strict: true });
  const entries = on(parser, 'entry', { close: ['end'] });
  const whole = pipeline(archive, asWritable(parser));
  whole.catch((error) => parser.abort(error));
  try {
    for await (const [entry] of entries as AsyncIterable<[ReadEntry]>) {
      const path = entry.path.replace(/^\.\/|\/$/g, '');
      const common = { path, modifiedAt: entry.mtime?.getTime() ?? 0, mode: (entry.mode ?? 0) & 0o777 };
      if (entry.type === 'Directory' && path !== '.' && path !== '') yield { ...common, kind: 'folder' };
      else if (entry.type === 'File') {
        yield { ...common, kind: 'file', size: entry.size, open: async () => Readable.from(entry) };
      }
      entry.resume();
    }
    await whole;
  } finally {
    archive.destroy();
    await whole.catch(() => undefined);
  }
}

/** The parser is a stream of an older kind, which says by itself when it has room again. */
function asWritable(parser: Parser): Writable {
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

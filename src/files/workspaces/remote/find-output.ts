import type { LinkedFile } from '../hard-links.ts';
import { clampTimeMs } from '../workspace-reader.ts';

/** A file or folder that find(1) printed. */
export interface FindRecord extends LinkedFile {
  kind: 'file' | 'folder';
  size: number;
  modifiedAt: number;
  mode: number;
  path: string;
}

/** Parses NUL-terminated records, as printed by `findScript`. */
export async function* parseFindOutput(output: AsyncIterable<Buffer>): AsyncGenerator<FindRecord> {
  let buffered = Buffer.alloc(0);
  for await (const chunk of output) {
    buffered = Buffer.concat([buffered, chunk]);
    for (let end = buffered.indexOf(0); end !== -1; end = buffered.indexOf(0)) {
      yield parseRecord(buffered.toString('utf8', 0, end));
      buffered = buffered.subarray(end + 1);
    }
  }
}

/** Parses type, links, inode, size, modification time, mode and path: `f 1 4711 12 1794712926.1234567890 644 data/in` */
function parseRecord(text: string): FindRecord {
  const [, type, links, id = '', size, seconds, mode = '', path = ''] =
    /^(\S) (\d+) (\d+) (\d+) (-?[\d.]+) (\d+) ([\s\S]*)$/.exec(text) ?? [];
  if (type === undefined) throw new Error(`unexpected output of find: ${text.slice(0, 100)}`);
  return {
    kind: type === 'd' ? 'folder' : 'file',
    id,
    links: Number(links),
    size: Number(size),
    modifiedAt: clampTimeMs(Number(seconds) * 1000),
    mode: Number.parseInt(mode, 8) & 0o777,
    path,
  };
}

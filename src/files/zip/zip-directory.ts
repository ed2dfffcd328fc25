import { exceedsMaxRatio, type ParsedZipEntry, readEntries, type ZipLimits } from './zip-entries.ts';
import { invalidEntry, invalidZip } from './zip-errors.ts';
import { type OpenZip, withZip } from './zip-reader.ts';
import type { ZipSource } from './zip-source.ts';

export type { ZipLimits } from './zip-entries.ts';

export interface ZipSummary {
  entries: number;
  unpackedBytes: number;
}

/**
 * Reads the central directory and nothing else. After success every entry is a plain file or folder with a path
 * of its own inside the folder it will be unpacked in, within the limits, as far as the directory tells the
 * truth (`unpackZip` finds out). After a failure (`invalid_zip`) a file is as it was, and closed.
 */
export async function inspectZip(content: ZipSource, limits: ZipLimits): Promise<ZipSummary> {
  return await withZip(content, (open) => checkCentralDirectory(open, limits, () => undefined));
}

/** The same with a zip that is open, telling of every entry on the way. */
export async function checkCentralDirectory(
  open: OpenZip,
  limits: ZipLimits,
  onEntry: (entry: ParsedZipEntry) => void,
): Promise<ZipSummary> {
  const tree = createTree(limits.maxEntries);
  const places: Place[] = [];
  let unpackedBytes = 0;
  let packedBytes = 0;
  for await (const entry of readEntries(open, limits)) {
    tree.add(entry);
    places.push({ path: entry.path, start: entry.start, end: entry.end });
    unpackedBytes += entry.unpackedBytes;
    packedBytes += entry.packedBytes;
    // Neither sum leaves the safe integers: each entry is within this limit and within the file.
    if (unpackedBytes > limits.maxUnpackedBytes) {
      throw invalidZip(`The zip file unpacks to more than ${limits.maxUnpackedBytes} bytes. Send less data.`);
    }
    onEntry(entry);
  }
  refuseOverlaps(places);
  if (exceedsMaxRatio(unpackedBytes, packedBytes, limits)) {
    const problem = `The zip file unpacks to more than ${limits.maxRatio} times its size`;
    throw invalidZip(`${problem}. Generate such data in the job instead of sending it.`);
  }
  return { entries: places.length, unpackedBytes };
}

interface Place {
  path: string;
  start: number;
  end: number;
}

/** Entries that share their bytes are how a few kilobytes unpack to petabytes. */
function refuseOverlaps(places: Place[]) {
  places.sort((a, b) => a.start - b.start);
  let end = 0;
  for (const place of places) {
    if (place.start < end) {
      throw invalidEntry(place.path, 'shares its bytes with another entry', 'Make the zip again with another tool.');
    }
    end = place.end;
  }
}

/** Finds entries that would be unpacked to the same place, on file systems that normalise names as well. */
function createTree(maxFolders: number) {
  const files = new Set<string>();
  const folders = new Set<string>();
  const parents = new Set<string>();
  const again = 'Name every file once, and make the zip again.';

  /** Stops at the first folder that is known: all those above it are then known too, and none of them is a file. */
  function addParents(path: string, key: string) {
    for (let end = key.lastIndexOf('/'); end > 0; end = key.lastIndexOf('/', end - 1)) {
      const parent = key.slice(0, end);
      if (parents.has(parent)) return;
      if (files.has(parent)) throw invalidEntry(path, 'lies in a folder that is a file as well', again);
      parents.add(parent);
    }
    if (parents.size > maxFolders) {
      throw invalidZip(`The zip file has more than ${maxFolders} folders. Pack small files into one, such as a tar.`);
    }
  }

  return {
    add({ path, kind }: ParsedZipEntry) {
      const key = path.normalize('NFC');
      if (files.has(key) || folders.has(key)) throw invalidEntry(path, 'is there twice', again);
      if (kind === 'file' && parents.has(key)) throw invalidEntry(path, 'is a file and a folder', again);
      (kind === 'file' ? files : folders).add(key);
      addParents(path, key);
    },
  };
}

import { formatBytes } from '../../domain/format-amount.ts';
import { exceedsMaxRatio, parseEntry, readHeaders, type ZipEntry, type ZipLimits } from './zip-entries.ts';
import { invalidEntry, invalidZip } from './zip-errors.ts';
import type { OpenZip } from './zip-reader.ts';

export interface ZipDirectory {
  /** In the order of their data. */
  entries: readonly ZipEntry[];
  unpackedBytes: number;
}

/**
 * Checks the central directory of a zip, and reads nothing else. After success, every entry is a regular file or folder
 * with a unique path inside the target folder, and within the limits. `readContent` detects data that contradicts it.
 */
export async function readDirectory(zip: OpenZip, limits: ZipLimits): Promise<ZipDirectory> {
  const check = createDirectoryCheck(limits);
  for await (const header of readHeaders(zip, limits)) check.add(parseEntry(zip, header, limits));
  return check.finish();
}

/** Checks the entries of a zip together: their paths, their places in the zip, and their sizes. */
export function createDirectoryCheck(limits: ZipLimits) {
  const tree = createPathTree(limits.maxEntries);
  const entries: ZipEntry[] = [];
  let unpackedBytes = 0;
  let packedBytes = 0;
  return {
    /** Throws `invalid_zip` if the entry conflicts with an earlier one, or if it is too much. */
    add(entry: ZipEntry): void {
      tree.add(entry);
      entries.push(entry);
      unpackedBytes += entry.unpackedBytes;
      packedBytes += entry.packedBytes;
      // Neither sum can exceed the safe integers: every entry is within this limit and within the file.
      if (unpackedBytes > limits.maxUnpackedBytes) {
        throw invalidZip(`The zip file unpacks to more than ${formatBytes(limits.maxUnpackedBytes)}. Send less data.`);
      }
    },

    /** Throws `invalid_zip` if the entries overlap, or are a zip bomb together. */
    finish(): ZipDirectory {
      entries.sort((a, b) => a.start - b.start);
      rejectOverlaps(entries);
      if (exceedsMaxRatio(unpackedBytes, packedBytes, limits)) {
        const problem = `The zip file unpacks to more than ${limits.maxRatio} times its size`;
        throw invalidZip(`${problem}. Generate such data in the job instead of sending it.`);
      }
      return { entries, unpackedBytes };
    },
  };
}

/** Overlapping entries are a zip bomb: they let a few kilobytes unpack to petabytes. */
function rejectOverlaps(entries: readonly ZipEntry[]) {
  let end = 0;
  for (const entry of entries) {
    if (entry.start < end) {
      throw invalidEntry(entry.path, 'overlaps with another entry', 'Create the zip with another tool.');
    }
    end = entry.end;
  }
}

/** Detects entries that would be unpacked to the same path, also on file systems that normalise Unicode names. */
export function createPathTree(maxFolders: number) {
  const files = new Set<string>();
  const folders = new Set<string>();
  const parents = new Set<string>();
  const recreate = 'Create the zip again with every path only once.';

  /** Stops at the first known folder: all folders above it are known too, and none of them is a file. */
  function addParents(path: string, key: string) {
    for (let end = key.lastIndexOf('/'); end > 0; end = key.lastIndexOf('/', end - 1)) {
      const parent = key.slice(0, end);
      if (parents.has(parent)) return;
      if (files.has(parent)) throw invalidEntry(path, 'is in a folder that is also a file', recreate);
      parents.add(parent);
    }
    if (parents.size > maxFolders) {
      throw invalidZip(
        `The zip file has more than ${maxFolders} folders. Pack them into one file, such as a tar file.`,
      );
    }
  }

  return {
    add({ path, kind }: Pick<ZipEntry, 'path' | 'kind'>) {
      const key = path.normalize('NFC');
      if (files.has(key) || folders.has(key)) throw invalidEntry(path, 'occurs twice', recreate);
      if (kind === 'file' && parents.has(key)) throw invalidEntry(path, 'is both a file and a folder', recreate);
      (kind === 'file' ? files : folders).add(key);
      addParents(path, key);
    },
  };
}

import type { Entry } from 'yauzl';
import { BursarError } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { type FolderEntry, findStartFileError, type InputRequest } from '../../domain/jobs/command.ts';
import { type ByteReader, createDirectoryCheck, createPathTree, openZip, readHeaders } from './zip-directory.ts';
import { describeName, parseEntry, parseEntryName, parseName, type ZipEntry, type ZipLimits } from './zip-entries.ts';
import { invalidEntry, invalidZip, toZipError } from './zip-errors.ts';

// Lists the input files of a job with everything that is wrong with them, by the rules of `createInputCheck`. Nothing here needs
// Node, so that web pages can show it before they send anything.

export interface ListedEntry extends FolderEntry {
  /** Says why the server would refuse the zip because of this entry; null if it would not. */
  problem: string | null;
}

export interface InputListing {
  entries: readonly ListedEntry[];
  unpackedBytes: number;
  /** The error that the server would answer with, before it looks for the start file; null if it accepts the files. */
  problem: BursarError | null;
}

/** Nobody reads more, and a hostile zip could fill the memory of the browser with folders. */
const maxListedProblems = 1000;

/** Lists a zip. Reads its central directory only. Stops after a thousand refused entries. */
export async function listZip(reader: ByteReader, limits: ZipLimits): Promise<InputListing> {
  const listing = createListing();
  try {
    const zip = await openZip(reader);
    const check = createDirectoryCheck(limits);
    for await (const header of readHeaders(zip, limits)) {
      let parsed: ZipEntry | undefined;
      const problem = listing.attempt(() => {
        parsed = parseEntry(header, zip.directoryStart, limits);
        check.add(parsed);
      });
      if (parsed !== undefined) listing.add({ ...parsed, bytes: parsed.unpackedBytes, problem });
      else listing.add({ ...refusedName(header), bytes: header.uncompressedSize, problem });
      if (listing.problemCount() >= maxListedProblems) break;
    }
    listing.attempt(() => check.finish());
  } catch (error) {
    const converted = toZipError(error);
    if (!(converted instanceof BursarError)) throw converted;
    listing.attempt(() => {
      throw converted;
    });
  }
  return listing.read();
}

/** Lists the files of a folder before they are zipped, by the rules that need no compressed data. */
export function listFolder(entries: readonly FolderEntry[], limits: ZipLimits): InputListing {
  const listing = createListing();
  const tree = createPathTree(limits.maxEntries);
  listing.attempt(() => {
    if (entries.length <= limits.maxEntries) return;
    const problem = `The folder has ${entries.length} files and folders, and at most ${limits.maxEntries} are allowed`;
    throw invalidZip(`${problem}. Pack many small files into one, such as a tar file.`);
  });
  for (const { path, kind, bytes } of entries) {
    const problem = listing.attempt(() => {
      parseName(path, Buffer.from(path));
      tree.add({ path, kind });
      if (bytes > limits.maxUnpackedBytes) {
        throw invalidEntry(path, `has more than ${formatBytes(limits.maxUnpackedBytes)}`, 'Send less data.');
      }
    });
    listing.add({ path, kind, bytes, problem });
  }
  listing.attempt(() => {
    if (listing.read().unpackedBytes <= limits.maxUnpackedBytes) return;
    throw invalidZip(`The folder has more than ${formatBytes(limits.maxUnpackedBytes)}. Send less data.`);
  });
  return listing.read();
}

/**
 * Checks the files of a folder before they are zipped, by the rules of `createInputCheck` that need no compressed data. Throws
 * `invalid_zip` or `start_file_missing`.
 */
export function checkFolder(request: InputRequest, entries: readonly FolderEntry[], limits: ZipLimits): void {
  const error = listFolder(entries, limits).problem ?? findStartFileError(request, entries);
  if (error !== null) throw error;
}

/** Collects entries and problems. The first problem is the one that the server answers with. */
function createListing() {
  const entries: ListedEntry[] = [];
  let unpackedBytes = 0;
  let problemCount = 0;
  let first: BursarError | null = null;
  return {
    /** Runs a check. Returns its message if it throws an error of Bursar, or null. */
    attempt(check: () => void): string | null {
      try {
        check();
        return null;
      } catch (error) {
        if (!(error instanceof BursarError)) throw error;
        first ??= error;
        return error.message;
      }
    },
    add({ path, kind, bytes, problem }: ListedEntry): void {
      entries.push({ path, kind, bytes, problem });
      unpackedBytes += bytes;
      if (problem !== null) problemCount += 1;
    },
    problemCount: () => problemCount,
    read: (): InputListing => ({ entries, unpackedBytes, problem: first }),
  };
}

/** The name of a refused entry: its path if that is valid, or else the name as it is in the zip. */
function refusedName(header: Entry): Pick<FolderEntry, 'path' | 'kind'> {
  try {
    const { path, isFolder } = parseEntryName(header);
    return { path, kind: isFolder ? 'folder' : 'file' };
  } catch {
    return { path: describeName(header), kind: 'file' };
  }
}

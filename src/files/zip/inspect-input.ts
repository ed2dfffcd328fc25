import { readStart, verifyFile } from './unzip.ts';
import { checkCentralDirectory, type ZipSummary } from './zip-directory.ts';
import { type ParsedZipEntry, readEntries, type ZipLimits } from './zip-entries.ts';
import { withZip } from './zip-reader.ts';
import type { ZipSource } from './zip-source.ts';

export interface InputQuery {
  /** The path of the file that the job starts with; null if it needs none. */
  startFile: string | null;
  /** How much of the start file to read. */
  maxStartBytes: number;
  /** Contents of up to this size, unpacked, are verified. */
  maxVerifiedBytes: number;
  limits: ZipLimits;
}

export interface InputSummary extends ZipSummary {
  /** The folder that everything in the zip is in, as in the zips that file managers create; null if there is none. */
  topFolder: string | null;
  fileCount: number;
  /** The first files, for messages. */
  fileNames: readonly string[];
  /** Null if the zip lacks the file. It is in `folder`: '' for the top of the zip, or else the top folder. */
  startFile: { folder: string; firstBytes: Buffer } | null;
}

/**
 * Checks the zip of a submission as `inspectZip` does, and finds the file that its job starts with. Verifies the contents
 * as `unpackZip` does, unless the zip is too large for that.
 */
export async function inspectInput(source: ZipSource, query: InputQuery): Promise<InputSummary> {
  const { maxStartBytes, limits } = query;
  return await withZip(source, async (zip) => {
    const layout = createLayout<ParsedZipEntry>(query.startFile);
    const files: ParsedZipEntry[] = [];
    const summary = await checkCentralDirectory(zip, limits, (entry) => {
      layout.add(entry);
      // The entries of a small zip are few.
      if (source.kind === 'memory' && entry.kind === 'file') files.push(entry);
    });
    const { start, ...contents } = layout.read();
    let firstBytes: Buffer | undefined = maxStartBytes === 0 ? noBytes : undefined;
    if (summary.unpackedBytes <= query.maxVerifiedBytes) {
      if (source.kind === 'file') await verifyContents(source, limits);
      for (const file of files) {
        const content = await verifyFile(zip, file);
        if (file === start?.entry) firstBytes ??= content?.subarray(0, maxStartBytes);
      }
    }
    if (start === null) return { ...summary, ...contents, startFile: null };
    firstBytes ??= await readStart(zip, start.entry, maxStartBytes);
    return { ...summary, ...contents, startFile: { folder: start.folder, firstBytes } };
  });
}

/** Reads the directory again: the entries of a hostile zip would take far more memory than the zip itself. */
async function verifyContents(source: ZipSource, limits: ZipLimits): Promise<void> {
  await withZip(source, async (zip) => {
    for await (const entry of readEntries(zip, limits)) if (entry.kind === 'file') await verifyFile(zip, entry);
  });
}

const noBytes = Buffer.alloc(0);
const maxFileNames = 5;

/** Finds the top folder and the start file from the entries of a zip, or of a folder that will become one. */
export function createLayout<T extends Pick<ParsedZipEntry, 'path' | 'kind'>>(startFile: string | null) {
  const fileNames: string[] = [];
  let fileCount = 0;
  /** Undefined before the first entry, null if the entries have no common folder. */
  let commonFolder: string | null | undefined;
  let atTop: T | undefined;
  let inFolder: T | undefined;

  /** Of several top folders none is preferred. */
  function findStart(topFolder: string | null): { folder: string; entry: T } | null {
    if (atTop !== undefined) return { folder: '', entry: atTop };
    return topFolder !== null && inFolder !== undefined ? { folder: topFolder, entry: inFolder } : null;
  }

  return {
    add(entry: T): void {
      const { path, kind } = entry;
      if (path === '' || isFileManagerMetadata(path)) return;
      const slash = path.indexOf('/');
      const topName = slash === -1 ? path : path.slice(0, slash);
      const folder = slash === -1 && kind === 'file' ? null : topName;
      if (commonFolder === undefined) commonFolder = folder;
      else if (commonFolder !== folder) commonFolder = null;
      if (kind === 'folder') return;
      if (path === startFile) atTop = entry;
      else if (path.slice(slash + 1) === startFile) inFolder ??= entry;
      if (fileCount++ < maxFileNames) fileNames.push(path);
    },

    read() {
      const topFolder = commonFolder ?? null;
      return { topFolder, fileCount, fileNames, start: findStart(topFolder) };
    },
  };
}

/** Files that macOS adds to zips and folders. */
function isFileManagerMetadata(path: string): boolean {
  return path === '__MACOSX' || path.startsWith('__MACOSX/') || path === '.DS_Store' || path.endsWith('/.DS_Store');
}

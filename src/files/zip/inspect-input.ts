import { readStart, verifyFile } from './unzip.ts';
import { checkCentralDirectory, type ZipSummary } from './zip-directory.ts';
import { type ParsedZipEntry, readEntries, type ZipLimits } from './zip-entries.ts';
import { createLayout } from './zip-layout.ts';
import { withZip, type ZipSource } from './zip-source.ts';

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

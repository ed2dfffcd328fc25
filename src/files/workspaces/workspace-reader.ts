import type { Readable } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import type { ArchiveEntry } from '../zip/zip-writer.ts';

export type LogStream = 'stdout' | 'stderr';

export interface ListedFile {
  /** Relative to the job's working directory, separated by slashes. Bytes that are not UTF-8 become U+FFFD. */
  path: string;
  size: number;
  /** Epoch milliseconds. */
  modifiedAt: number;
}

/** A regular file, with its metadata at the time it was opened. */
export interface OpenFile {
  size: number;
  modifiedAt: number;
  /** Changes whenever the file changes. */
  version: string;
  /** False while the file could change again within one tick of its timestamps, and so without a new version. */
  isVersionReliable: boolean;
  /** Streams exactly these bytes. The stream fails if the file has become shorter. Call it at most once. */
  read(start: number, length: number): Promise<Readable>;
  /** Closes the file if `read` was not called. A stream from `read` closes the file itself. */
  close(): Promise<void>;
}

export interface LogChunk {
  /** Size of the whole log when the chunk was read. */
  size: number;
  bytes: Buffer;
}

/** The job whose files are read, and who reads them, which need not be its owner. */
export interface WorkspaceReading {
  jobId: string;
  user: string;
  /** Aborted when the reader has gone. */
  signal: AbortSignal;
}

/**
 * Reads the workspace of a job, during and after its run. The job is not trusted: a reader never reads outside the
 * workspace, whatever links the job creates and whenever it creates them. Symbolic links, pipes, sockets, devices, and
 * files with a hard link outside the workspace are treated as absent.
 *
 * Streams over a shared connection are divided fairly between users. A stream fails with `unavailable` if its reader is too
 * slow while others wait.
 *
 * Failures: `file_unknown`, `too_many_files`, and `unavailable` (transient) if the disk or the host does not respond.
 */
export interface WorkspaceReader {
  /**
   * Lists the regular files in a folder of the job's working directory and in its subfolders, unordered. The list is
   * empty if there is no workspace. Files created or deleted meanwhile may be included or not.
   */
  listFiles(reading: WorkspaceReading, folder: readonly string[]): AsyncIterable<ListedFile>;

  /** Whether the job has a workspace, which may be empty. */
  hasWorkspace(reading: WorkspaceReading): Promise<boolean>;

  openFile(reading: WorkspaceReading, path: readonly string[]): Promise<OpenFile>;

  /** Like `listFiles`, but includes folders and file contents. */
  archive(reading: WorkspaceReading, folder: readonly string[]): AsyncIterable<ArchiveEntry>;

  /** Reads up to `maxBytes` of a log, starting at `offset`. Returns undefined if the log does not exist yet. */
  readLog(
    reading: WorkspaceReading,
    log: LogStream,
    from: { offset: number; maxBytes: number },
  ): Promise<LogChunk | undefined>;

  /** Interval for polling a followed log: `fast` while the log grows, and up to `slow` while it does not. */
  readonly logPollMs: { fast: number; slow: number };
}

export function fileNotFound(): BursarError {
  return new BursarError(
    'file_unknown',
    'There is no file with this path in the workspace. Use a path from the file list, or a folder path that ends with ' +
      'a slash. Links and special files cannot be read.',
  );
}

/** Passes entries on, and fails if there are more than `max`. */
export async function* limitEntries<T>(entries: AsyncIterable<T>, max: number): AsyncGenerator<T> {
  let count = 0;
  for await (const entry of entries) {
    count += 1;
    if (count > max) {
      throw new BursarError(
        'too_many_files',
        `The folder has more than ${max} files and folders. Request its subfolders, or single files.`,
      );
    }
    yield entry;
  }
}

const maxTimeMs = Date.UTC(9999, 11, 31);

/** Limits a file time to what a four-digit year can express: a job can set any time on its files. */
export function clampTimeMs(ms: number): number {
  return Math.floor(Math.min(Math.max(ms, 0), maxTimeMs));
}

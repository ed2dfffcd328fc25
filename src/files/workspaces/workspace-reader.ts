import type { Readable } from 'node:stream';

export type LogStream = 'stdout' | 'stderr';

export interface ListedFile {
  /** From the job's working directory, with slashes. Bytes that are not UTF-8 show as U+FFFD. */
  path: string;
  size: number;
  /** Epoch milliseconds. */
  modifiedAt: number;
}

/** A regular file, as it was when it was opened. */
export interface OpenFile {
  size: number;
  modifiedAt: number;
  /** Another one whenever the file has changed. */
  version: string;
  /** False while it may have changed again within the same tick of its clock: then the version vouches for nothing. */
  isSettled: boolean;
  /** Exactly these bytes: where the file has become shorter meanwhile, the stream fails. To be called once. */
  read(start: number, length: number): Promise<Readable>;
  /** Lets go of the file, unless it is being read: a stream does so itself. */
  close(): Promise<void>;
}

/** Something on its way into an archive. Each is done with before the next is asked for. */
export type ArchiveEntry = { path: string; modifiedAt: number; mode: number } & (
  | { kind: 'folder' }
  /** `open` gives at most `size` bytes; nothing where the file has gone meanwhile. */
  | { kind: 'file'; size: number; open(): Promise<Readable | undefined> }
);

/** One look at what a job has printed. */
export interface LogChunk {
  /** Of the whole log, at that moment. */
  size: number;
  bytes: Buffer;
}

/**
 * Reads what a job made of its workspace, while it runs and after. The job is not trusted: nothing outside its workspace
 * is ever read, whatever links it makes and when. Symbolic links, pipes, sockets and devices are as if they were not
 * there, and so is a file that has another name (a hard link) outside.
 *
 * Failures: `file_unknown`, and `unavailable` (transient) when the disk or the host does not answer.
 */
export interface WorkspaceReader {
  /**
   * The regular files in a folder of the job's working directory and below, in no particular order; nothing where there
   * is no workspace. Files that come and go meanwhile may be there or not.
   */
  listFiles(jobId: string, folder: readonly string[], signal: AbortSignal): AsyncIterable<ListedFile>;

  openFile(jobId: string, path: readonly string[], signal: AbortSignal): Promise<OpenFile>;

  /** The same as `listFiles`, with folders and contents. */
  archive(jobId: string, folder: readonly string[], signal: AbortSignal): AsyncIterable<ArchiveEntry>;

  /** What the job has printed from this byte on, as far as it fits; undefined while it has no such log. */
  readLog(
    jobId: string,
    log: LogStream,
    from: { offset: number; maxBytes: number },
    signal: AbortSignal,
  ): Promise<LogChunk | undefined>;

  /** How often a log may be looked at by one who follows it: while something comes, and at the least. */
  readonly lookMs: { fast: number; slow: number };
}

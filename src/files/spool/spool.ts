import { createHash, randomUUID } from 'node:crypto';
import { access, type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { coalesce } from '../../shell/coalesce.ts';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { isJobId, requireJobId } from '../safe-paths.ts';
import { syncFolder } from '../sync-folder.ts';
import type { ZipSource } from '../zip/zip-content.ts';

export interface Upload {
  /** Temporary: the caller stores it for a job or discards it. */
  content: ZipSource;
  bytes: number;
  sha256: string;
}

export type UploadBody = Readable | AsyncIterable<Uint8Array>;

/** Stores the zips of submitted jobs that are too large for the database, until an engine has accepted the job. */
export interface Spool {
  /** Creates the folders. Must be called once, before anything else. */
  open(): Promise<void>;

  /** Deletes unfinished uploads that have not grown for this long: their sender is gone. */
  removeStaleUploads(olderThanMs: number): Promise<void>;

  /**
   * Receives a request body, counts and hashes it. A small body is held in memory, a larger one is streamed to disk.
   * After success the upload is complete, a file is fsynced, and the caller must store or discard it. After a failure
   * nothing is left. The body is then not read further, but not destroyed either, so that an HTTP server can still
   * respond. After a crash `removeStaleUploads` cleans up.
   *
   * Failures: `too_large` as soon as the body exceeds the limit, `invalid_body` if it ends prematurely, `timeout` if its
   * sender pauses for too long.
   */
  receive(body: UploadBody, options: { maxBytes: number }): Promise<Upload>;

  /**
   * Moves the file of an upload to the job. After success the zip survives a crash of the machine. After a failure
   * repeat the call or discard the upload.
   */
  storeForJob(path: string, jobId: string): Promise<void>;

  /**
   * Deletes the upload. Does nothing if it was stored for a job or discarded already. Never throws: a file that cannot be
   * deleted is left to `removeStaleUploads`.
   */
  discard(upload: Pick<Upload, 'content'>): Promise<void>;

  pathOf(jobId: string): string;

  has(jobId: string): Promise<boolean>;

  /** Deletes the zip of a job, if there is one. */
  remove(jobId: string): Promise<void>;

  /** Returns the ids of the jobs whose zips were stored at least this long ago. */
  list(olderThanMs?: number): Promise<string[]>;
}

/** An upload takes one of the places of its user and of all users, so a sender that has stalled must not keep it. */
const maxPauseMs = 60_000;

export const spoolFolder = (dataFolder: string) => join(dataFolder, 'spool');

export function createSpool(
  directory: string,
  options: { maxPauseMs?: number; onBytes?(bytes: number): void } = {},
): Spool {
  const incoming = join(directory, 'incoming');
  const pathOf = (jobId: string) => join(directory, `${requireJobId(jobId)}.zip`);
  const syncDirectory = coalesce<void, void>(() => syncFolder(directory));

  return {
    async open() {
      await mkdir(incoming, { recursive: true, mode: 0o700 });
    },

    async removeStaleUploads(olderThanMs) {
      for (const name of await listNames(incoming, olderThanMs)) await rm(join(incoming, name), { force: true });
    },

    async receive(body, { maxBytes }) {
      // A stream can fail before its first read or after a rejection. An unhandled 'error' event ends the process.
      if (body instanceof Readable) body.on('error', () => undefined);
      const hash = createHash('sha256');
      const buffer = createUploadBuffer(join(incoming, `${randomUUID()}.part`));
      let bytes = 0;
      try {
        for await (const chunk of readChunks(body, options.maxPauseMs ?? maxPauseMs)) {
          bytes += chunk.length;
          options.onBytes?.(chunk.length);
          if (bytes > maxBytes) throw tooLarge({ maxBytes, receivedBytes: bytes });
          hash.update(chunk);
          await buffer.append(chunk);
        }
        return { content: await buffer.finish(), bytes, sha256: hash.digest('hex') };
      } catch (error) {
        await buffer.discard();
        throw toFileSystemError('store the request body', error);
      }
    },

    async storeForJob(path, jobId) {
      const target = pathOf(jobId);
      try {
        await rename(path, target);
        await syncDirectory();
      } catch (error) {
        throw toFileSystemError('store the request body', error);
      }
    },

    async discard({ content }) {
      if (content.kind === 'file') await rm(content.path, { force: true }).catch(() => undefined);
    },

    pathOf,

    async has(jobId) {
      try {
        await access(pathOf(jobId));
        return true;
      } catch (error) {
        // Any other error could hide an existing zip, and a job must not run without its files.
        if (fileSystemErrorCode(error) === 'ENOENT') return false;
        throw toFileSystemError('check for the zip of a job', error);
      }
    },

    async remove(jobId) {
      await rm(pathOf(jobId), { force: true });
    },

    async list(olderThanMs = 0) {
      const names = await listNames(directory, olderThanMs);
      return names
        .filter((name) => name.endsWith('.zip'))
        .map((name) => name.slice(0, -'.zip'.length))
        .filter(isJobId);
    },
  };
}

/** Lists the names in a folder that were last modified at least this long ago. */
async function listNames(folder: string, olderThanMs: number): Promise<string[]> {
  const names = await readdir(folder);
  if (olderThanMs === 0) return names;
  const before = Date.now() - olderThanMs;
  const stats = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)));
  return names.filter((_, index) => (stats[index]?.mtimeMs ?? before) < before);
}

/** A separate generator, so that errors of the body are distinguished from errors of the disk. */
async function* readChunks(body: UploadBody, pauseMs: number): AsyncGenerator<Uint8Array> {
  // Leaving the loop would destroy the stream, and with it the socket that the error response needs.
  const chunks = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : body;
  const iterator = chunks[Symbol.asyncIterator]();
  /** Rejects the chunk that is awaited. */
  let rejectNext: ((error: unknown) => void) | undefined;
  // Only the sender's time counts, not that of the disk.
  const timer = setTimeout(() => (rejectNext ? rejectNext(stalled(pauseMs)) : timer.refresh()), pauseMs);
  try {
    for (;;) {
      timer.refresh();
      const { done, value } = await new Promise<IteratorResult<string | Uint8Array>>((resolve, reject) => {
        rejectNext = reject;
        iterator.next().then(resolve, reject);
      });
      rejectNext = undefined;
      if (done) return;
      yield typeof value === 'string' ? Buffer.from(value) : value;
    }
  } catch (cause) {
    if (cause instanceof BursarError) throw cause;
    throw new BursarError('invalid_body', 'The request body ended prematurely. Send it again.', { cause });
  } finally {
    clearTimeout(timer);
    // A generator ends only after the chunk that it waits for, which may never arrive.
    const ended = iterator.return?.();
    if (rejectNext) ended?.catch(() => undefined);
    else await ended;
  }
}

function stalled(pauseMs: number) {
  const message = `No more of the request body arrived for ${pauseMs / 1000} seconds. Send the request again.`;
  return new BursarError('timeout', message, { transient: true });
}

export function tooLarge(details: { maxBytes: number; receivedBytes?: number }): BursarError {
  const limit = formatBytes(details.maxBytes);
  const message = `The request body is larger than the limit of ${limit}. Send a smaller zip file.`;
  return new BursarError('too_large', message, { details });
}

/** Larger uploads are written to a file. For smaller ones a file would cost more than its content. */
export const maxInMemoryBytes = 65_536;
/** Each chunk has a memory overhead, however small it is. */
const maxInMemoryChunks = 64;

/** Collects an upload in memory while it is small, and from then on in a file at `path`. */
function createUploadBuffer(path: string) {
  let chunks: Uint8Array[] = [];
  let totalBytes = 0;
  let file: FileHandle | undefined;

  async function moveToFile(): Promise<FileHandle> {
    file = await open(path, 'wx', 0o600);
    for (const chunk of chunks) await file.appendFile(chunk);
    chunks = [];
    return file;
  }

  return {
    async append(chunk: Uint8Array): Promise<void> {
      totalBytes += chunk.length;
      const fitsInMemory = totalBytes <= maxInMemoryBytes && chunks.length < maxInMemoryChunks;
      if (file === undefined && fitsInMemory) chunks.push(chunk);
      else await (file ?? (await moveToFile())).appendFile(chunk);
    },
    /** After success the upload is complete. A file is fsynced and closed. */
    async finish(): Promise<ZipSource> {
      if (file === undefined) {
        const [first] = chunks;
        const isOneBuffer = first instanceof Buffer && chunks.length === 1;
        return { kind: 'memory', bytes: isOneBuffer ? first : Buffer.concat(chunks) };
      }
      await file.sync();
      await file.close();
      return { kind: 'file', path };
    },
    /** Closes and deletes the file, if there is one. Never throws. */
    async discard(): Promise<void> {
      if (file === undefined) return;
      // Errors are ignored: the caller reports the original one, and `removeStaleUploads` deletes the file later.
      await file.close().catch(() => undefined);
      await rm(path, { force: true }).catch(() => undefined);
    },
  };
}

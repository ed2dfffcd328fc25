import { createHash, randomUUID } from 'node:crypto';
import { access, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { isJobId, requireJobId } from '../safe-paths.ts';
import { syncFolder } from '../sync-folder.ts';
import type { ZipSource } from '../zip/zip-source.ts';
import { createUploadBuffer } from './upload-buffer.ts';

export interface Upload {
  /** Where it is until it is kept. */
  content: ZipSource;
  bytes: number;
  sha256: string;
}

export type UploadBody = Readable | AsyncIterable<Uint8Array>;

/** The zips of submitted jobs that are files, from their first byte until an engine has the job. */
export interface Spool {
  /** Makes the folders. Called once, first. */
  open(): Promise<void>;

  /** Removes the uploads that nothing has been added to for this long: nobody sends them any more. */
  removeStaleUploads(olderThanMs: number): Promise<void>;

  /**
   * Takes a body in, counted and hashed: a small one is held in memory, any other streamed to disk. After success it
   * is complete, a file fsynced, and belongs to the caller, who keeps or discards it. After a failure nothing is left,
   * and the body is not read any further; it is not destroyed either, so that an HTTP caller can still be answered.
   * After a crash `sweep` cleans up.
   *
   * Failures: `too_large` as soon as the body crosses the limit, `invalid_body` when it breaks off.
   */
  receive(body: UploadBody, options: { maxBytes: number; onProgress?(): void }): Promise<Upload>;

  /** After success the file of an upload is the job's, and survives a crash of the machine. After a failure repeat or discard. */
  storeForJob(file: string, jobId: string): Promise<void>;

  /** After success the upload is gone. Discarding one that is kept or gone does nothing. */
  discard(upload: Pick<Upload, 'content'>): Promise<void>;

  pathOf(jobId: string): string;

  has(jobId: string): Promise<boolean>;

  /** After success the job has no zip here, whether it had one or not. */
  remove(jobId: string): Promise<void>;

  /** The ids of the jobs that have a zip here, which came in at least this long ago. */
  list(olderThanMs?: number): Promise<string[]>;
}

export function createSpool(directory: string): Spool {
  const incoming = join(directory, 'incoming');
  const pathOf = (jobId: string) => join(directory, `${requireJobId(jobId)}.zip`);
  const syncNames = syncForAll(directory);

  return {
    async open() {
      await mkdir(incoming, { recursive: true, mode: 0o700 });
    },

    async removeStaleUploads(olderThanMs) {
      for (const name of await namesIn(incoming, olderThanMs)) await rm(join(incoming, name), { force: true });
    },

    async receive(body, { maxBytes, onProgress }) {
      // A stream can fail before it is first read or after the refusal, and an error nobody hears ends the process.
      if (body instanceof Readable) body.on('error', () => undefined);
      const hash = createHash('sha256');
      const place = createUploadBuffer(join(incoming, `${randomUUID()}.part`));
      let bytes = 0;
      try {
        for await (const chunk of chunksOf(body)) {
          bytes += chunk.length;
          if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
          hash.update(chunk);
          await place.add(chunk);
          onProgress?.();
        }
        return { content: await place.end(), bytes, sha256: hash.digest('hex') };
      } catch (error) {
        await place.abandon();
        throw toFileSystemError('store the request body', error);
      }
    },

    async storeForJob(file, jobId) {
      const path = pathOf(jobId);
      try {
        await rename(file, path);
        await syncNames();
      } catch (error) {
        throw toFileSystemError('store the request body', error);
      }
    },

    async discard({ content }) {
      if (content.kind === 'file') await rm(content.path, { force: true });
    },

    pathOf,

    async has(jobId) {
      try {
        await access(pathOf(jobId));
        return true;
      } catch (error) {
        // A folder that cannot be reached now has it perhaps, and a job must not run without its files.
        if (fileSystemErrorCode(error) === 'ENOENT') return false;
        throw toFileSystemError('look for the zip of a job', error);
      }
    },

    async remove(jobId) {
      await rm(pathOf(jobId), { force: true });
    },

    async list(olderThanMs = 0) {
      const names = await namesIn(directory, olderThanMs);
      return names
        .filter((name) => name.endsWith('.zip'))
        .map((name) => name.slice(0, -'.zip'.length))
        .filter(isJobId);
    },
  };
}

/** What is in a folder, as far as it was last written to so long ago. */
async function namesIn(folder: string, olderThanMs: number): Promise<string[]> {
  const names = await readdir(folder);
  if (olderThanMs === 0) return names;
  const before = Date.now() - olderThanMs;
  const ages = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => undefined)));
  return names.filter((_, index) => (ages[index]?.mtimeMs ?? before) < before);
}

/** A generator of its own, so that what the body throws is told apart from what the disk throws. */
async function* chunksOf(body: UploadBody): AsyncGenerator<Uint8Array> {
  // Leaving the loop would destroy a stream, and with it the socket that the refusal has to go out on.
  const chunks = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : body;
  try {
    for await (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
  } catch (cause) {
    if (cause instanceof BursarError) throw cause;
    throw new BursarError('invalid_body', 'The request body broke off before its end. Send it again.', { cause });
  }
}

function tooLarge(bytes: number, maxBytes: number) {
  const message =
    `The request body is larger than ${maxBytes} bytes, the most that is taken here; ` +
    `${bytes} bytes had come in when reading stopped. Send a smaller zip file.`;
  return new BursarError('too_large', message, { details: { maxBytes, receivedBytes: bytes } });
}

/** Syncs a folder for everybody at once who has renamed something in it before the sync begins. */
function syncForAll(path: string): () => Promise<void> {
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        running = syncFolder(path);
        return running;
      });
    return next;
  };
}

import { createWriteStream } from 'node:fs';
import { mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { type Download, FileChangedError } from '../download.ts';
import { ApiError } from '../errors.ts';
import type { File as JobFile } from '../generated/types.ts';
import type { JobHandle } from '../job.ts';

export interface SaveOptions {
  signal?: AbortSignal | undefined;
  onProgress?: ((progress: { receivedBytes: number; totalBytes: number | undefined }) => void) | undefined;
}

export interface SaveFilesOptions {
  signal?: AbortSignal | undefined;
  filter?: ((file: JobFile) => boolean) | undefined;
  onProgress?:
    | ((progress: { file: JobFile; receivedBytes: number; allBytes: number; totalBytes: number }) => void)
    | undefined;
}

/** A job that is still writing a file may change it during every attempt. */
const maxRestarts = 3;

/**
 * Saves a file of a job. Until it is complete it is `<target>.part`, with its ETag beside it: after a crash or a lost
 * connection the next call continues it, if the file is still the same. After success `target` is complete.
 */
export async function saveFile(job: JobHandle, path: string, target: string, options: SaveOptions = {}): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  for (let restarts = 0; ; restarts++) {
    try {
      return await saveOnce(job, path, target, options);
    } catch (error) {
      const isChanged =
        error instanceof FileChangedError || (error instanceof ApiError && error.code === 'range_not_satisfiable');
      if (!isChanged || restarts >= maxRestarts) throw error;
      await rm(`${target}.part`, { force: true });
    }
  }
}

async function saveOnce(job: JobHandle, path: string, target: string, options: SaveOptions): Promise<void> {
  const [part, etagFile] = [`${target}.part`, `${target}.part.etag`];
  const resume = await findPart(part, etagFile);
  const download = await job.download(path, { resume, signal: options.signal });
  if (download.start === 0) {
    // Removed first: a part must never be beside the ETag of another version.
    await rm(part, { force: true });
    await writeFile(etagFile, download.etag ?? '');
  }
  await write(download, part, options);
  await rename(part, target);
  await rm(etagFile, { force: true });
}

/** A weak ETag identifies no bytes, so that such a part cannot be continued. */
async function findPart(part: string, etagFile: string): Promise<{ offset: number; etag: string } | undefined> {
  const etag = await readFile(etagFile, 'utf8').catch(() => '');
  const { size = 0 } = (await stat(part).catch(() => undefined)) ?? {};
  return size > 0 && etag.startsWith('"') ? { offset: size, etag } : undefined;
}

/** Saves all files of a job as one zip. */
export async function saveArchive(job: JobHandle, target: string, options: SaveOptions = {}): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  const part = `${target}.part`;
  await rm(part, { force: true });
  await write(await job.archive({ signal: options.signal }), part, options);
  await rename(part, target);
}

/** Saves all files of a job. Files that an earlier call has saved, and that have not changed, are left as they are. */
export async function saveFiles(
  job: JobHandle,
  folder: string,
  { signal, filter = () => true, onProgress }: SaveFilesOptions = {},
): Promise<JobFile[]> {
  const files = (await job.files({ signal })).filter(filter);
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0);
  let doneBytes = 0;
  for (const file of files) {
    const target = join(folder, safePath(file.path));
    const report = (receivedBytes: number) =>
      onProgress?.({ file, receivedBytes, allBytes: doneBytes + receivedBytes, totalBytes });
    if (!(await isSaved(file, target))) {
      await saveFile(job, file.path, target, { signal, onProgress: ({ receivedBytes }) => report(receivedBytes) });
      await utimes(target, new Date(), new Date(file.modified));
    }
    report(file.size);
    doneBytes += file.size;
  }
  return files;
}

async function isSaved({ size, modified }: JobFile, target: string): Promise<boolean> {
  const found = await stat(target).catch(() => undefined);
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return found?.isFile() === true && found.size === size && seconds(found.mtimeMs) === seconds(Date.parse(modified));
}

/** A file of a job whose name would lead out of the folder. Nothing was written. */
class UnsafeNameError extends Error {
  override name = 'UnsafeNameError';
  readonly code = 'unsafe_name';
}

/** Jobs choose the names of their files. None may lead out of the folder. */
function safePath(path: string): string {
  const names = path.split('/');
  const isUnsafe = (name: string) => name === '' || name === '.' || name === '..' || name.includes(sep);
  if (names.some(isUnsafe)) throw new UnsafeNameError(`The file ${path} has a name that is not safe to save.`);
  return join(...names);
}

async function write(download: Download, part: string, { signal, onProgress }: SaveOptions): Promise<void> {
  const { start, size: totalBytes } = download;
  let receivedBytes = start;
  async function* counted() {
    for await (const chunk of download) {
      yield chunk;
      receivedBytes += chunk.length;
      onProgress?.({ receivedBytes, totalBytes });
    }
  }
  await pipeline(counted(), createWriteStream(part, { flags: start > 0 ? 'a' : 'w' }), signal ? { signal } : {});
  if (totalBytes !== undefined && receivedBytes !== totalBytes)
    throw new FileChangedError(`${part} has ${receivedBytes} bytes instead of ${totalBytes}.`);
}

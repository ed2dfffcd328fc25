import { createReadStream } from 'node:fs';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { createIgnoreRules, type IsIgnored, ignoreFileName } from '../../../../src/files/zip/ignore-rules.ts';
import { zipChunks } from '../../../../src/files/zip/zip-writer.ts';
import type { UploadSource } from '../submit.ts';

/** A file or folder that goes into the zip. */
export interface FolderEntry {
  /** Relative to the folder, separated by slashes. */
  path: string;
  kind: 'file' | 'folder';
  size: number;
  /** Epoch milliseconds. */
  modifiedAt: number;
  mode: number;
}

export interface FolderOptions {
  /** Whether a file, or a folder with everything in it, is sent. Default: all. Called for paths that are not ignored. */
  filter?: ((path: string, kind: FolderEntry['kind']) => boolean) | undefined;
}

/** A folder as the input of a job. */
export interface FolderSource extends UploadSource {
  totalBytes: number;
  /** By ascending path, so that every attempt sends the same bytes. */
  entries: readonly FolderEntry[];
}

/** A folder that cannot be sent. */
export class InputError extends Error {
  override name = 'InputError';
  readonly code = 'invalid_input';
}

/**
 * Lists a folder. Its zip is made while it is sent, so that it needs neither memory nor disk: its size is not known before, and
 * progress counts the bytes of the files. Packing it twice, for the size, would double the work. A repetition packs the same
 * bytes as long as no file changes.
 *
 * Symbolic links are followed, because the server accepts none in a zip. Paths that `.bursarignore` names are left out, and
 * so are `.git`, `.bursar`, `bursar.yaml` and others that no job needs.
 */
export async function openFolder(path: string, { filter = () => true }: FolderOptions = {}): Promise<FolderSource> {
  const root = resolve(path);
  const isIgnored = await readIgnoreRules(root);
  const isSent = (child: string, kind: FolderEntry['kind']) => !isIgnored(child, kind) && filter(child, kind);
  const entries: FolderEntry[] = [];
  const list = async (folder: string, parents: readonly string[]): Promise<void> => {
    const real = await realpath(join(root, folder));
    if (parents.includes(real)) throw new InputError(`${folder} is a link to a folder that it is in. Leave it out.`);
    const names = (await readdir(join(root, folder))).sort();
    for (const name of names) {
      const child = folder === '' ? name : `${folder}/${name}`;
      const entry = await describe(root, child, isSent);
      if (entry === undefined) continue;
      entries.push(entry);
      if (entry.kind === 'folder') await list(child, [...parents, real]);
    }
  };
  await list('', []);
  return {
    name: `${basename(root) || 'job'}.zip`,
    entries,
    totalBytes: entries.reduce((sum, { size }) => sum + size, 0),
    open: (onBytes) => toWebStream(zipChunks(toArchiveEntries(root, entries, onBytes), { isCompressed: true })),
  };
}

async function readIgnoreRules(root: string): Promise<IsIgnored> {
  const text = await readFile(join(root, ignoreFileName), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  return createIgnoreRules(text);
}

async function describe(
  root: string,
  path: string,
  isSent: NonNullable<FolderOptions['filter']>,
): Promise<FolderEntry | undefined> {
  const found = await stat(join(root, path)).catch((error: NodeJS.ErrnoException) => error);
  const isFolder = !(found instanceof Error) && found.isDirectory();
  if (!isSent(path, isFolder ? 'folder' : 'file')) return undefined;
  if (found instanceof Error) {
    const isDangling = found.code === 'ENOENT' || found.code === 'ELOOP';
    throw isDangling ? new InputError(`${path} is a link to nothing. Remove it, or leave it out.`) : found;
  }
  if (!isFolder && !found.isFile()) throw new InputError(`${path} is neither a file nor a folder. Leave it out.`);
  // The writer would replace them silently.
  if (/\\|^[a-z]:/i.test(path)) throw new InputError(`${path} has a backslash or a drive letter. Rename it.`);
  const { size, mtimeMs, mode } = found;
  const kind = isFolder ? 'folder' : 'file';
  return { path, kind, size: isFolder ? 0 : size, modifiedAt: mtimeMs, mode: mode & 0o777 };
}

async function* toArchiveEntries(root: string, entries: readonly FolderEntry[], onBytes: (count: number) => void) {
  for (const entry of entries) {
    const { path, modifiedAt, mode, size } = entry;
    if (entry.kind === 'folder') yield { kind: 'folder', path, modifiedAt, mode } as const;
    else {
      const open = async () => Readable.from(readBytes(join(root, path), size, onBytes), { objectMode: false });
      yield { kind: 'file', path, modifiedAt, mode, size, open } as const;
    }
  }
}

/**
 * Reads exactly `size` bytes. A log that grows meanwhile must not make the zip larger than it was checked for; a file that
 * becomes shorter would arrive as half of its old content and half of its new one.
 */
async function* readBytes(path: string, size: number, onBytes: (count: number) => void): AsyncGenerator<Buffer> {
  if (size === 0) return;
  let left = size;
  for await (const chunk of createReadStream(path, { end: size - 1, highWaterMark: 256 * 1024 })) {
    left -= (chunk as Buffer).length;
    yield chunk as Buffer;
    onBytes((chunk as Buffer).length);
  }
  if (left > 0) throw new InputError(`${path} has changed while it was sent. Submit it again when it is complete.`);
}

/** Unlike `ReadableStream.from`, this is in every Node 20. */
export function toWebStream(chunks: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => {
        await chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

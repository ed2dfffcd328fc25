import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { requireJobId } from '../safe-paths.ts';
import { streamRange } from './file-streams.ts';
import { countLinks, createHardLinkCheck } from './hard-links.ts';
import { type FileName, openFolder, openRegularFile } from './safe-open.ts';
import { type WalkedEntry, walkFolder } from './walk-folder.ts';
import { clampTimeMs, fileNotFound, type WorkspaceReader } from './workspace-reader.ts';

/** After this no change can have escaped a file's times, whose ticks are milliseconds long. */
const settledMs = 1000;
const permissions = 0o777n;

/** Reads workspaces that this host sees. */
export function createLocalReader(root: string): WorkspaceReader {
  const homeOf = (jobId: string) => join(root, requireJobId(jobId));

  const insideOf = (home: string) => {
    const isInside = createHardLinkCheck(() => countLinks(namedFiles(home)));
    return (stats: BigIntStats) => isInside(identityOf(stats));
  };

  async function openInside(home: string, path: readonly FileName[]) {
    const folder = await openFolder(home, path.slice(0, -1));
    if (folder === undefined) return undefined;
    return await openOwn(folder, path.at(-1) ?? '', insideOf(home)).finally(() => folder.close());
  }

  async function openOwn(folder: FileHandle, name: FileName, isInside: ReturnType<typeof insideOf>) {
    const file = await openRegularFile(folder, name);
    if (file === undefined || (await isInside(file.stats))) return file;
    await file.handle.close();
    return undefined;
  }

  async function* walk(jobId: string, folder: readonly string[], signal: AbortSignal): AsyncGenerator<WalkedEntry> {
    const home = homeOf(jobId);
    const top = ['files', ...folder];
    if (folder.length > 0) await checkFolder(home, top);
    const isInside = insideOf(home);
    for await (const found of walkFolder(home, top)) {
      if (signal.aborted) return;
      if (found.stats.isDirectory() || (await isInside(found.stats))) yield found;
    }
  }

  async function openContent({ folder, names }: WalkedEntry, isInside: ReturnType<typeof insideOf>) {
    const file = await openOwn(folder, names.at(-1) ?? '', isInside);
    return file && streamRange(file.handle, 0, Number(file.stats.size), false);
  }

  return {
    async *listFiles(jobId, folder, signal) {
      for await (const { names, stats } of walk(jobId, folder, signal)) {
        if (!stats.isFile()) continue;
        yield { path: pathOfNames(names), size: Number(stats.size), modifiedAt: clampTimeMs(Number(stats.mtimeMs)) };
      }
    },

    async openFile(jobId, path) {
      const file = await openInside(homeOf(jobId), ['files', ...path]);
      if (file === undefined) throw fileNotFound();
      const { handle, stats } = file;
      let isRead = false;
      return {
        size: Number(stats.size),
        modifiedAt: clampTimeMs(Number(stats.mtimeMs)),
        version: [stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].map((part) => part.toString(36)).join('-'),
        isVersionReliable: Date.now() - Number(stats.ctimeMs) > settledMs,
        read: async (start, length): Promise<Readable> => {
          isRead = true;
          return streamRange(handle, start, length, true);
        },
        close: async () => {
          if (!isRead) await handle.close();
        },
      };
    },

    async *archive(jobId, folder, signal) {
      const isInside = insideOf(homeOf(jobId));
      for await (const found of walk(jobId, folder, signal)) {
        const { names, stats } = found;
        const entry = {
          path: pathOfNames(names),
          modifiedAt: clampTimeMs(Number(stats.mtimeMs)),
          mode: Number(stats.mode & permissions),
        };
        if (stats.isDirectory()) yield { ...entry, kind: 'folder' };
        else {
          yield { ...entry, kind: 'file', size: Number(stats.size), open: () => openContent(found, isInside) };
        }
      }
    },

    async readLog(jobId, log, { offset, maxBytes }) {
      const file = await openInside(homeOf(jobId), [log]);
      if (file === undefined) return undefined;
      try {
        const size = Number(file.stats.size);
        const room = Math.max(0, Math.min(maxBytes, size - offset));
        const { bytesRead, buffer } = await file.handle.read(Buffer.allocUnsafeSlow(room), 0, room, offset);
        return { size, bytes: buffer.subarray(0, bytesRead) };
      } finally {
        await file.handle.close();
      }
    },

    logPollMs: { fast: 100, slow: 1000 },
  };
}

/** Throws unless there is such a folder. */
async function checkFolder(home: string, names: readonly FileName[]): Promise<void> {
  const folder = await openFolder(home, names);
  if (folder === undefined) throw fileNotFound();
  await folder.close();
}

async function* namedFiles(home: string) {
  for await (const { stats } of walkFolder(home, [])) if (stats.isFile()) yield identityOf(stats);
}

const identityOf = ({ dev, ino, nlink }: BigIntStats) => ({ id: `${dev}:${ino}`, names: Number(nlink) });

/** Without the `files` at its beginning. */
const pathOfNames = (names: readonly Buffer[]) =>
  names
    .slice(1)
    .map((name) => name.toString('utf8'))
    .join('/');

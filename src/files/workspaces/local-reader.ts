import { type BigIntStats, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { requireJobId } from '../safe-paths.ts';
import { streamRange, streamUpTo } from './file-streams.ts';
import { createHardLinkCheck, hasOnlyInnerLinks, type LinkedFile } from './hard-links.ts';
import { type FileName, openFolder, openRegularFile } from './safe-open.ts';
import { type WalkedEntry, walkFolder } from './walk-folder.ts';
import {
  clampTimeMs,
  fileNotFound,
  limitEntries,
  type WorkspaceReader,
  type WorkspaceReading,
} from './workspace-reader.ts';

/** Two changes within a few milliseconds can get the same timestamp. After this time a change gets a new one. */
const versionReliableAfterMs = 1000;
const permissionBits = 0o777n;

type LinkCheck = (stats: BigIntStats) => Promise<boolean>;

export interface LocalReaderOptions {
  /** Paths of files that this process must never open as files of a job, even if a job has a hard link to one. */
  protectedFiles?: readonly string[];
  /** Lists and archives of more files and folders fail. */
  maxEntries?: number;
}

/** Reads workspaces on the file system of this host. */
export function createLocalReader(
  root: string,
  { protectedFiles = [], maxEntries = Number.POSITIVE_INFINITY }: LocalReaderOptions,
): WorkspaceReader {
  const isProtected = createProtection(protectedFiles);
  const workspacePath = (jobId: string) => join(root, requireJobId(jobId));

  function createLinkCheck(areLinksInside: (file: LinkedFile) => Promise<boolean>): LinkCheck {
    return async (stats) => {
      // A protected file has its own name outside the workspace, so it has at least two links here. The system counts them.
      if (stats.nlink === 1n) return true;
      // While the names are counted, a job can move one so that it counts twice. Therefore they alone do not decide.
      return !isProtected(stats) && (await areLinksInside(toLinkedFile(stats)));
    };
  }

  /** For many files: the workspace is read once. */
  const createLinkChecks = (workspace: string, signal: AbortSignal) =>
    createLinkCheck(createHardLinkCheck(() => listLinkedFiles(workspace, signal)));

  async function openInWorkspace({ jobId, signal }: WorkspaceReading, path: readonly FileName[]) {
    const workspace = workspacePath(jobId);
    const folder = await openFolder(workspace, path.slice(0, -1));
    if (folder === undefined) return undefined;
    const check = createLinkCheck((file) => hasOnlyInnerLinks(file, listLinkedFiles(workspace, signal)));
    return await openRegularFile(folder, path.at(-1) ?? '', check).finally(() => folder.close());
  }

  async function* walk({ jobId, signal }: WorkspaceReading, folder: readonly string[]): AsyncGenerator<WalkedEntry> {
    const workspace = workspacePath(jobId);
    const top = ['files', ...folder];
    if (folder.length > 0) await requireFolder(workspace, top);
    const mayOpen = createLinkChecks(workspace, signal);
    for await (const entry of limitEntries(walkFolder(workspace, top), maxEntries)) {
      if (signal.aborted) return;
      const { stats } = entry;
      if (stats.isDirectory() || (stats.isFile() && (await mayOpen(stats)))) yield entry;
    }
  }

  async function openContent({ folder, name }: WalkedEntry, mayOpen: LinkCheck) {
    const file = await openRegularFile(folder, name, mayOpen);
    return file && (await streamUpTo(file.handle, 0, Number(file.stats.size)));
  }

  return {
    async *listFiles(reading, folder) {
      for await (const entry of walk(reading, folder)) {
        const { stats } = entry;
        if (!stats.isFile()) continue;
        yield { path: toFilePath(entry), size: Number(stats.size), modifiedAt: clampTimeMs(Number(stats.mtimeMs)) };
      }
    },

    async hasWorkspace({ jobId }) {
      const folder = await openFolder(workspacePath(jobId), []);
      await folder?.close();
      return folder !== undefined;
    },

    async openFile(reading, path) {
      const file = await openInWorkspace(reading, ['files', ...path]);
      if (file === undefined) throw fileNotFound();
      const { handle, stats } = file;
      let isRead = false;
      return {
        size: Number(stats.size),
        modifiedAt: clampTimeMs(Number(stats.mtimeMs)),
        version: [stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].map((part) => part.toString(36)).join('-'),
        isVersionReliable: Date.now() - Number(stats.ctimeMs) > versionReliableAfterMs,
        read: async (start, length): Promise<Readable> => {
          isRead = true;
          return await streamRange(handle, start, length);
        },
        close: async () => {
          if (!isRead) await handle.close();
        },
      };
    },

    async *archive(reading, folder) {
      const mayOpen = createLinkChecks(workspacePath(reading.jobId), reading.signal);
      for await (const walked of walk(reading, folder)) {
        const { stats } = walked;
        const entry = {
          path: toFilePath(walked),
          modifiedAt: clampTimeMs(Number(stats.mtimeMs)),
          mode: Number(stats.mode & permissionBits),
        };
        if (stats.isDirectory()) yield { ...entry, kind: 'folder' };
        else {
          const open = () => openContent(walked, mayOpen);
          yield { ...entry, kind: 'file', size: Number(stats.size), open };
        }
      }
    },

    async readLog(reading, log, { offset, maxBytes }) {
      const file = await openInWorkspace(reading, [log]);
      if (file === undefined) return undefined;
      try {
        const size = Number(file.stats.size);
        const length = Math.max(0, Math.min(maxBytes, size - offset));
        const { bytesRead, buffer } = await file.handle.read(Buffer.allocUnsafeSlow(length), 0, length, offset);
        return { size, bytes: buffer.subarray(0, bytesRead) };
      } finally {
        await file.handle.close();
      }
    },

    logPollMs: { fast: 100, slow: 1000 },
  };
}

async function requireFolder(workspace: string, names: readonly FileName[]): Promise<void> {
  const folder = await openFolder(workspace, names);
  if (folder === undefined) throw fileNotFound();
  await folder.close();
}

/** Ends early if the reader has gone: the files with several links then count as absent. */
async function* listLinkedFiles(workspace: string, signal: AbortSignal): AsyncGenerator<LinkedFile> {
  for await (const { stats } of walkFolder(workspace, [])) {
    if (signal.aborted) return;
    if (stats.isFile()) yield toLinkedFile(stats);
  }
}

const toLinkedFile = ({ dev, ino, nlink }: BigIntStats): LinkedFile => ({ id: `${dev}:${ino}`, links: Number(nlink) });

/** Drops the leading `files` folder. */
const toFilePath = ({ folderNames, name }: WalkedEntry) =>
  [...folderNames.slice(1), name].map((part) => part.toString('utf8')).join('/');

/**
 * Returns a function that tells whether a file is one of these, whatever its name in a workspace is. A job can create a
 * hard link to a file that it can reach. The files of SQLite must not even be opened: closing any descriptor of a file
 * drops all locks that the process has on it, and other processes then write to the database at the same time.
 *
 * The paths are not opened either. They are looked up each time, because SQLite can create a file again.
 */
export function createProtection(paths: readonly string[]): (stats: BigIntStats) => boolean {
  return ({ dev, ino }) =>
    paths.some((path) => {
      const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
      return stats?.ino === ino && stats.dev === dev;
    });
}

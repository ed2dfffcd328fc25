import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { BursarError } from '../../../domain/errors.ts';
import { createSlots } from '../../../domain/slots.ts';
import type { Shell } from '../../../shell/shell.ts';
import { requireJobId } from '../../safe-paths.ts';
import { exactLength } from '../file-streams.ts';
import { createHardLinkCheck } from '../hard-links.ts';
import { clampTimeMs, fileNotFound, limitEntries, type WorkspaceReader } from '../workspace-reader.ts';
import {
  archiveScript,
  enterScript,
  type FindRecord,
  findLinkedScript,
  findScript,
  parseFindOutput,
  readScript,
} from './read-scripts.ts';
import { createScriptRunner, type RunScript, type ScriptRunnerOptions } from './script-runner.ts';
import { readTarEntries } from './tar.ts';

/** The client of a download that stalled can resume it. */
const idleTimeoutMs = 120_000;
/** For output that clients read at their own speed. Lists do not wait for downloads and archives. */
const downloadSlots = { total: 4, perKey: 2 };
const listSlots = { total: 3, perKey: 2 };
/** For output that this process reads at once. A reader that holds one of these never waits for another one. */
const querySlots = { total: 4, perKey: 2 };
/** A third of a large send buffer, at this rate, takes less than the pause. */
const defaultMinRate = { bytesPerSecond: 50_000, maxPauseMs: 40_000 };
/** After this time a change gets a new timestamp. `now` of the remote host has a resolution of whole seconds. */
const versionReliableAfterSeconds = 2;

export type MinRate = ScriptRunnerOptions['minRate'];

export interface RemoteReaderOptions {
  root: string;
  /** Time limit of a read until its first byte. */
  timeoutMs: number;
  /** Lists and archives of more files and folders fail. */
  maxEntries?: number;
  /** Streams that are slower are ended while others wait. */
  minRate?: MinRate;
}

/** Reads workspaces on another host, with scripts that verify the location of what they have opened: see `readScript`. */
export function createRemoteReader(
  shell: Shell,
  { root, timeoutMs, maxEntries = Number.POSITIVE_INFINITY, minRate = defaultMinRate }: RemoteReaderOptions,
): WorkspaceReader {
  // Separate slots: a client that reads slowly, or not at all, delays neither logs nor the checks of other requests.
  const common = { timeoutMs, idleTimeoutMs, minRate };
  const runDownload = createScriptRunner(shell, { ...common, slots: createSlots(downloadSlots) });
  const runList = createScriptRunner(shell, { ...common, slots: createSlots(listSlots) });
  const runQuery = createScriptRunner(shell, { ...common, slots: createSlots(querySlots) });

  async function openAt(
    run: RunScript,
    path: readonly string[],
    { offset, length }: { offset: number; length: number },
    signal: AbortSignal,
    user: string,
  ) {
    const args = [root, path.slice(0, -1).join('/'), path.at(-1) ?? '', String(offset), String(length)];
    const output = await run(readScript, args, signal, user);
    if (output === undefined) return undefined;
    const [id = '', size, modified = '', changed = '', links, innerLinks, now] = output.firstLine.split(' ');
    if (links === innerLinks) {
      return { id, size: Number(size), modified, changed, now: Number(now), content: output.rest };
    }
    output.rest.resume();
    return undefined;
  }

  async function* find(
    run: RunScript,
    script: string,
    folder: string,
    signal: AbortSignal,
    user: string,
  ): AsyncGenerator<FindRecord> {
    const output = await run(script, [root, folder], signal, user);
    if (output === undefined) throw fileNotFound();
    yield* parseFindOutput(output.rest);
  }

  /** The files in a folder that have several hard links. */
  const findLinked = (folder: string, signal: AbortSignal, user: string) =>
    limitEntries(find(runQuery, findLinkedScript, folder, signal, user), maxEntries);

  const createLinkCheck = (jobId: string, signal: AbortSignal, user: string) =>
    createHardLinkCheck(() => findLinked(jobId, signal, user));

  /** A workspace that does not exist yet is empty. A missing folder inside a workspace is an error. */
  async function* emptyIfNoWorkspace<T>(entries: AsyncGenerator<T>, folder: readonly string[]): AsyncGenerator<T> {
    try {
      yield* entries;
    } catch (error) {
      const isNotFound = error instanceof BursarError && error.code === 'file_unknown';
      if (!isNotFound || folder.length > 0) throw error;
    }
  }

  const folderPath = (jobId: string, folder: readonly string[]) => [requireJobId(jobId), 'files', ...folder].join('/');
  const joinPath = (folder: readonly string[], path: string) => [...folder, path].join('/');

  async function* listFiles(jobId: string, folder: readonly string[], signal: AbortSignal, user: string) {
    const hasOnlyInnerLinks = createLinkCheck(jobId, signal, user);
    const records = find(runList, findScript, folderPath(jobId, folder), signal, user);
    for await (const record of limitEntries(records, maxEntries)) {
      if (record.kind === 'folder' || !(await hasOnlyInnerLinks(record))) continue;
      yield { path: joinPath(folder, record.path), size: record.size, modifiedAt: record.modifiedAt };
    }
  }

  /** Finds the files that have hard links outside the workspace. tar cannot detect them. */
  async function findOuterLinks(jobId: string, folder: readonly string[], signal: AbortSignal, user: string) {
    // All of them before the first check: that runs a script too, and the slot of this one must be free by then.
    const linked = await Array.fromAsync(findLinked(folderPath(jobId, folder), signal, user));
    const hasOnlyInnerLinks = createLinkCheck(jobId, signal, user);
    const paths = new Set<string>();
    for (const file of linked) if (!(await hasOnlyInnerLinks(file))) paths.add(file.path);
    return paths;
  }

  async function* archive(jobId: string, folder: readonly string[], signal: AbortSignal, user: string) {
    const excludedPaths = await findOuterLinks(jobId, folder, signal, user);
    const output = await runDownload(archiveScript, [root, folderPath(jobId, folder)], signal, user);
    if (output === undefined) throw fileNotFound();
    for await (const entry of limitEntries(readTarEntries(output.rest), maxEntries)) {
      if (!excludedPaths.has(entry.path)) yield { ...entry, path: joinPath(folder, entry.path) };
    }
  }

  return {
    listFiles: (jobId, folder, signal, user) => emptyIfNoWorkspace(listFiles(jobId, folder, signal, user), folder),
    archive: (jobId, folder, signal, user) => emptyIfNoWorkspace(archive(jobId, folder, signal, user), folder),

    async hasWorkspace(jobId, signal, user) {
      const output = await runQuery(enterScript, [root, requireJobId(jobId)], signal, user);
      output?.rest.resume();
      return output !== undefined;
    },

    async openFile(jobId, path, signal, user) {
      const fullPath = [requireJobId(jobId), 'files', ...path];
      const file = await openAt(runQuery, fullPath, { offset: 0, length: 0 }, signal, user);
      if (file === undefined) throw fileNotFound();
      file.content.resume();
      const { id, size, modified, changed, now } = file;
      return {
        size,
        modifiedAt: clampTimeMs(Number(modified) * 1000),
        version: [id, size.toString(36), modified, changed].join('-'),
        // Compares with the clock of the remote host, not of this one.
        isVersionReliable: now - Number(changed) > versionReliableAfterSeconds,
        read: async (start, length) => {
          if (length === 0) return Readable.from([]);
          const download = await openAt(runDownload, fullPath, { offset: start, length }, signal, user);
          if (download?.id === id && download.size >= start + length) {
            return pipeline(download.content, exactLength(length), () => undefined);
          }
          download?.content.destroy();
          const message = 'The file was replaced or became shorter. Request it again.';
          throw new BursarError('unavailable', message, { transient: true });
        },
        close: async () => undefined,
      };
    },

    async readLog(jobId, log, { offset, maxBytes }, signal, user) {
      const file = await openAt(runQuery, [requireJobId(jobId), log], { offset, length: maxBytes }, signal, user);
      return file && { size: file.size, bytes: await buffer(file.content) };
    },

    logPollMs: { fast: 2000, slow: 10_000 },
  };
}

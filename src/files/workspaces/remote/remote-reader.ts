import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { BursarError } from '../../../domain/errors.ts';
import { createSlots } from '../../../domain/slots.ts';
import type { Shell } from '../../../shell/shell.ts';
import { requireJobId } from '../../safe-paths.ts';
import { exactLength } from '../file-streams.ts';
import { createHardLinkCheck } from '../hard-links.ts';
import {
  clampTimeMs,
  fileNotFound,
  limitEntries,
  type WorkspaceReader,
  type WorkspaceReading,
} from '../workspace-reader.ts';
import {
  archiveScript,
  enterScript,
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
    reading: WorkspaceReading,
    path: readonly string[],
    { offset, length }: { offset: number; length: number },
  ) {
    const folder = [requireJobId(reading.jobId), ...path.slice(0, -1)].join('/');
    const args = [root, folder, path.at(-1) ?? '', String(offset), String(length)];
    const output = await run(readScript, args, reading);
    if (output === undefined) return undefined;
    const [id = '', size, modified = '', changed = '', links, innerLinks, now] = output.firstLine.split(' ');
    if (links === innerLinks) {
      return { id, size: Number(size), modified, changed, now: Number(now), content: output.rest };
    }
    output.rest.resume();
    return undefined;
  }

  async function* find(run: RunScript, script: string, folder: string, reading: WorkspaceReading) {
    const output = await run(script, [root, folder], reading);
    if (output === undefined) throw fileNotFound();
    yield* parseFindOutput(output.rest);
  }

  /** The files in a folder that have several hard links. */
  const findLinked = (folder: string, reading: WorkspaceReading) =>
    limitEntries(find(runQuery, findLinkedScript, folder, reading), maxEntries);

  const createLinkCheck = (reading: WorkspaceReading) => createHardLinkCheck(() => findLinked(reading.jobId, reading));

  /** A workspace that does not exist yet is empty. A missing folder inside a workspace is an error. */
  async function* emptyIfNoWorkspace<T>(entries: AsyncGenerator<T>, folder: readonly string[]): AsyncGenerator<T> {
    try {
      yield* entries;
    } catch (error) {
      const isNotFound = error instanceof BursarError && error.code === 'file_unknown';
      if (!isNotFound || folder.length > 0) throw error;
    }
  }

  const folderPath = ({ jobId }: WorkspaceReading, folder: readonly string[]) =>
    [requireJobId(jobId), 'files', ...folder].join('/');
  const joinPath = (folder: readonly string[], path: string) => [...folder, path].join('/');

  async function* listFiles(reading: WorkspaceReading, folder: readonly string[]) {
    const hasOnlyInnerLinks = createLinkCheck(reading);
    const records = find(runList, findScript, folderPath(reading, folder), reading);
    for await (const record of limitEntries(records, maxEntries)) {
      if (record.kind === 'folder' || !(await hasOnlyInnerLinks(record))) continue;
      yield { path: joinPath(folder, record.path), size: record.size, modifiedAt: record.modifiedAt };
    }
  }

  /** Finds the files that have hard links outside the workspace. tar cannot detect them. */
  async function findOuterLinks(reading: WorkspaceReading, folder: readonly string[]) {
    // All of them before the first check: that runs a script too, and the slot of this one must be free by then.
    const linked = await Array.fromAsync(findLinked(folderPath(reading, folder), reading));
    const hasOnlyInnerLinks = createLinkCheck(reading);
    const paths = new Set<string>();
    for (const file of linked) if (!(await hasOnlyInnerLinks(file))) paths.add(file.path);
    return paths;
  }

  async function* archive(reading: WorkspaceReading, folder: readonly string[]) {
    const excludedPaths = await findOuterLinks(reading, folder);
    const output = await runDownload(archiveScript, [root, folderPath(reading, folder)], reading);
    if (output === undefined) throw fileNotFound();
    for await (const entry of limitEntries(readTarEntries(output.rest), maxEntries)) {
      if (!excludedPaths.has(entry.path)) yield { ...entry, path: joinPath(folder, entry.path) };
    }
  }

  return {
    listFiles: (reading, folder) => emptyIfNoWorkspace(listFiles(reading, folder), folder),
    archive: (reading, folder) => emptyIfNoWorkspace(archive(reading, folder), folder),

    async hasWorkspace(reading) {
      const output = await runQuery(enterScript, [root, requireJobId(reading.jobId)], reading);
      output?.rest.resume();
      return output !== undefined;
    },

    async openFile(reading, path) {
      const fullPath = ['files', ...path];
      const file = await openAt(runQuery, reading, fullPath, { offset: 0, length: 0 });
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
          const download = await openAt(runDownload, reading, fullPath, { offset: start, length });
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

    async readLog(reading, log, { offset, maxBytes }) {
      const file = await openAt(runQuery, reading, [log], { offset, length: maxBytes });
      return file && { size: file.size, bytes: await buffer(file.content) };
    },

    logPollMs: { fast: 2000, slow: 10_000 },
  };
}

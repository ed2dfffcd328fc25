import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { BursarError } from '../../../domain/errors.ts';
import type { Shell } from '../../../shell/shell.ts';
import { requireJobId } from '../../safe-paths.ts';
import { exactLength } from '../file-streams.ts';
import { countLinks, createHardLinkCheck } from '../hard-links.ts';
import { clampTimeMs, fileNotFound, type WorkspaceReader } from '../workspace-reader.ts';
import { type FindRecord, parseFindOutput } from './find-output.ts';
import { archiveScript, enterScript, findLinkedScript, findScript, readScript } from './read-scripts.ts';
import { createScriptRunner } from './script-runner.ts';
import { readTarEntries } from './tar-entries.ts';

/** The client of a download that stalled can resume it. */
const idleTimeoutMs = 120_000;
const downloadConcurrency = 4;
const queryConcurrency = 4;
/** After this time a change gets a new timestamp. `now` of the remote host has a resolution of whole seconds. */
const versionReliableAfterSeconds = 2;

type RunScript = ReturnType<typeof createScriptRunner>;

/** Reads workspaces on another host, with scripts that verify the location of what they have opened: see `readScript`. */
export function createRemoteReader(shell: Shell, root: string, timeoutMs: number): WorkspaceReader {
  // Separate limits, so that lists and logs do not wait for downloads.
  const runQuery = createScriptRunner(shell, { concurrency: queryConcurrency, timeoutMs, idleTimeoutMs });
  const runDownload = createScriptRunner(shell, { concurrency: downloadConcurrency, timeoutMs, idleTimeoutMs });

  async function openAt(run: RunScript, path: readonly string[], offset: number, length: number, signal: AbortSignal) {
    const args = [root, path.slice(0, -1).join('/'), path.at(-1) ?? '', String(offset), String(length)];
    const output = await run(readScript, args, signal);
    if (output === undefined) return undefined;
    const [id = '', size, modified = '', changed = '', links, innerLinks, now] = output.firstLine.split(' ');
    if (links === innerLinks) {
      return { id, size: Number(size), modified, changed, now: Number(now), content: output.rest };
    }
    output.rest.resume();
    return undefined;
  }

  async function* find(script: string, folder: string, signal: AbortSignal): AsyncGenerator<FindRecord> {
    const output = await runQuery(script, [root, folder], signal);
    if (output === undefined) throw fileNotFound();
    yield* parseFindOutput(output.rest);
  }

  const createLinkCheck = (jobId: string, signal: AbortSignal) =>
    createHardLinkCheck(() => countLinks(find(findLinkedScript, jobId, signal)));

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

  async function* listFiles(jobId: string, folder: readonly string[], signal: AbortSignal) {
    const hasOnlyInnerLinks = createLinkCheck(jobId, signal);
    for await (const record of find(findScript, folderPath(jobId, folder), signal)) {
      if (record.kind === 'folder' || !(await hasOnlyInnerLinks(record))) continue;
      yield { path: joinPath(folder, record.path), size: record.size, modifiedAt: record.modifiedAt };
    }
  }

  /** Finds the files that have hard links outside the workspace. tar cannot detect them. */
  async function findOuterLinks(jobId: string, folder: readonly string[], signal: AbortSignal): Promise<Set<string>> {
    const hasOnlyInnerLinks = createLinkCheck(jobId, signal);
    const paths = new Set<string>();
    for await (const record of find(findLinkedScript, folderPath(jobId, folder), signal)) {
      if (!(await hasOnlyInnerLinks(record))) paths.add(record.path);
    }
    return paths;
  }

  async function* archive(jobId: string, folder: readonly string[], signal: AbortSignal) {
    const excludedPaths = await findOuterLinks(jobId, folder, signal);
    const output = await runDownload(archiveScript, [root, folderPath(jobId, folder)], signal);
    if (output === undefined) throw fileNotFound();
    for await (const entry of readTarEntries(output.rest)) {
      if (!excludedPaths.has(entry.path)) yield { ...entry, path: joinPath(folder, entry.path) };
    }
  }

  return {
    listFiles: (jobId, folder, signal) => emptyIfNoWorkspace(listFiles(jobId, folder, signal), folder),
    archive: (jobId, folder, signal) => emptyIfNoWorkspace(archive(jobId, folder, signal), folder),

    async hasWorkspace(jobId, signal) {
      const output = await runQuery(enterScript, [root, requireJobId(jobId)], signal);
      output?.rest.resume();
      return output !== undefined;
    },

    async openFile(jobId, path, signal) {
      const fullPath = [requireJobId(jobId), 'files', ...path];
      const file = await openAt(runQuery, fullPath, 0, 0, signal);
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
          const download = await openAt(runDownload, fullPath, start, length, signal);
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

    async readLog(jobId, log, { offset, maxBytes }, signal) {
      const file = await openAt(runQuery, [requireJobId(jobId), log], offset, maxBytes, signal);
      return file && { size: file.size, bytes: await buffer(file.content) };
    },

    logPollMs: { fast: 2000, slow: 10_000 },
  };
}

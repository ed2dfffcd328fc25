import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { BursarError } from '../../../domain/errors.ts';
import type { Shell } from '../../../shell/shell.ts';
import { requireJobId } from '../../safe-paths.ts';
import { exactLength, idleTimeout } from '../file-streams.ts';
import { countLinks, createHardLinkCheck } from '../hard-links.ts';
import { clampTimeMs, fileNotFound, type WorkspaceReader } from '../workspace-reader.ts';
import { type FindRecord, parseFindOutput } from './find-output.ts';
import { archiveScript, findScript, linkedScript, readScript } from './read-scripts.ts';
import { createScriptRunner } from './script-runner.ts';
import { readTarEntries } from './tar-entries.ts';

/** A client that takes nothing for so long is cut off, and can resume: others may be waiting for their turn. */
const idleMs = 120_000;
const transfersAtATime = 4;
const looksAtATime = 4;

type Start = ReturnType<typeof createScriptRunner>;

/** Reads workspaces that another host sees, by scripts that check where they have got to: see `readScript`. */
export function createRemoteReader(shell: Shell, root: string): WorkspaceReader {
  // Whoever looks at a list or a log does not wait for those who download.
  const look = createScriptRunner(shell, looksAtATime);
  const transfer = createScriptRunner(shell, transfersAtATime);

  async function openAt(start: Start, path: readonly string[], from: number, bytes: number, signal: AbortSignal) {
    const args = [root, path.slice(0, -1).join('/'), path.at(-1) ?? '', String(from), String(bytes)];
    const answer = await start(readScript, args, signal);
    if (answer === undefined) return undefined;
    const [id = '', size, modified = '', changed = '', names, inside, now] = answer.line.split(' ');
    if (names === inside) return { id, size: Number(size), modified, changed, now: Number(now), content: answer.rest };
    answer.rest.resume();
    return undefined;
  }

  async function* find(script: string, folder: string, signal: AbortSignal): AsyncGenerator<FindRecord> {
    const answer = await look(script, [root, folder], signal);
    if (answer === undefined) throw fileNotFound();
    yield* parseFindOutput(answer.rest);
  }

  const insideOf = (jobId: string, signal: AbortSignal) =>
    createHardLinkCheck(() => countLinks(find(linkedScript, jobId, signal)));

  /** Of a workspace that is not there yet there is nothing; of a folder in it that is not there, nobody has heard. */
  async function* orNothing<T>(entries: AsyncGenerator<T>, folder: readonly string[]): AsyncGenerator<T> {
    try {
      yield* entries;
    } catch (error) {
      const isNothing = error instanceof BursarError && error.code === 'file_unknown' && folder.length === 0;
      if (!isNothing) throw error;
    }
  }

  const folderPath = (jobId: string, folder: readonly string[]) => [requireJobId(jobId), 'files', ...folder].join('/');
  const below = (folder: readonly string[], path: string) => [...folder, path].join('/');

  async function* listFiles(jobId: string, folder: readonly string[], signal: AbortSignal) {
    const isInside = insideOf(jobId, signal);
    for await (const found of find(findScript, folderPath(jobId, folder), signal)) {
      if (found.kind === 'folder' || !(await isInside(found))) continue;
      yield { path: below(folder, found.path), size: found.size, modifiedAt: found.modifiedAt };
    }
  }

  /** The paths of files that have names outside: tar cannot tell. */
  async function strangersIn(jobId: string, folder: readonly string[], signal: AbortSignal): Promise<Set<string>> {
    const isInside = insideOf(jobId, signal);
    const strangers = new Set<string>();
    for await (const found of find(linkedScript, folderPath(jobId, folder), signal)) {
      if (!(await isInside(found))) strangers.add(found.path);
    }
    return strangers;
  }

  async function* archive(jobId: string, folder: readonly string[], signal: AbortSignal) {
    const strangers = await strangersIn(jobId, folder, signal);
    const answer = await transfer(archiveScript, [root, folderPath(jobId, folder)], signal);
    if (answer === undefined) throw fileNotFound();
    const packed = pipeline(answer.rest, idleTimeout(idleMs), () => undefined);
    for await (const entry of readTarEntries(packed)) {
      if (!strangers.has(entry.path)) yield { ...entry, path: below(folder, entry.path) };
    }
  }

  return {
    listFiles: (jobId, folder, signal) => orNothing(listFiles(jobId, folder, signal), folder),
    archive: (jobId, folder, signal) => orNothing(archive(jobId, folder, signal), folder),

    async openFile(jobId, path, signal) {
      const whole = [requireJobId(jobId), 'files', ...path];
      const file = await openAt(look, whole, 0, 0, signal);
      if (file === undefined) throw fileNotFound();
      file.content.resume();
      const { id, size, modified, changed, now } = file;
      return {
        size,
        modifiedAt: clampTimeMs(Number(modified) * 1000),
        version: [id, size.toString(36), modified, changed].join('-'),
        // By the clock of the other side, as far as one can see it from here.
        isVersionReliable: now - Number(changed) > 2,
        read: async (start, length) => {
          if (length === 0) return Readable.from([]);
          const again = await openAt(transfer, whole, start, length, signal);
          if (again?.id === id && again.size >= start + length) {
            return pipeline(again.content, idleTimeout(idleMs), exactLength(length), () => undefined);
          }
          again?.content.destroy();
          throw new BursarError('unavailable', 'The file is being replaced. Ask again.', { transient: true });
        },
        close: async () => undefined,
      };
    },

    async readLog(jobId, log, { offset, maxBytes }, signal) {
      const file = await openAt(look, [requireJobId(jobId), log], offset, maxBytes, signal);
      return file && { size: file.size, bytes: await buffer(file.content) };
    },

    logPollMs: { fast: 2000, slow: 10_000 },
  };
}

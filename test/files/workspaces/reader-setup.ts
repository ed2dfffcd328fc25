import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { promisify } from 'node:util';
import type { Workspaces } from '../../../src/files/workspaces/workspaces.ts';
import { temporaryFolder } from '../temporary.ts';

export const jobId = 'BURSAR-JOB-TOOL-0123456789ABCDEF0123456789ABCDEF';
export const outsideContent = 'SECRET: must not be readable';
const user = '1';
const neverAborted = new AbortController().signal;

/** The implementation that the contract tests run on. */
export interface ReaderEnvironment {
  /** Creates workspaces under `root`. `folder` is for temporary files. */
  createWorkspaces: MakeWorkspaces;
  /** Number of attempts in tests of race conditions. */
  raceRounds: number;
  close(): Promise<void>;
}

/** The size of the files and logs of the test job. */
export async function measureBytes(workspaces: Workspaces): Promise<number | undefined> {
  return (await workspaces.measure([jobId], neverAborted)).get(jobId)?.bytes;
}

/** Creates a file that takes space on the disk although its size is 0. */
export async function allocateHiddenSpace(path: string, bytes: number): Promise<void> {
  await writeFile(path, '');
  await promisify(execFile)('fallocate', ['--keep-size', '--length', String(bytes), path]);
}

/** The workspace has the folder `files` and six entries in it; another job has none. */
export async function assertEntries(workspaces: Workspaces): Promise<void> {
  const entries = async (maxEntries?: number) =>
    [...(await workspaces.measure([jobId, 'NONE', jobId], neverAborted, maxEntries))].map(([id, usage]) => [
      id,
      usage.entries,
    ]);
  assert.deepEqual(await entries(), [
    [jobId, 7],
    ['NONE', 0],
  ]);
  assert.deepEqual(await entries(7), [
    [jobId, 7],
    ['NONE', 0],
  ]);
  assert.deepEqual(await entries(3), [
    [jobId, 4],
    ['NONE', 0],
  ]);
}

type MakeWorkspaces = (root: string) => Workspaces;

/** Creates a workspace on the local disk, with functions that change it and that read it through the reader. */
export async function openWorkspace(t: TestContext, makeWorkspaces: MakeWorkspaces) {
  const folder = await temporaryFolder(t);
  const root = join(folder, "it's the root");
  const home = join(root, jobId);
  const workspaces = makeWorkspaces(root);
  const at = (...names: string[]) => join(home, 'files', ...names);
  await mkdir(join(folder, 'outside', 'deep', 'more'), { recursive: true });
  for (const name of ['file', 'deep/file', 'deep/more/file'])
    await writeFile(join(folder, 'outside', name), outsideContent);

  return {
    folder,
    root,
    home,
    at,
    workspaces,
    outside: (...names: string[]) => join(folder, 'outside', ...names),
    /** Writes files into the job's working directory. */
    async writeFiles(files: Record<string, string | Uint8Array>) {
      await mkdir(at(), { recursive: true });
      for (const [name, content] of Object.entries(files)) {
        await mkdir(join(at(name), '..'), { recursive: true });
        await writeFile(at(name), content);
      }
    },
    async paths(...inFolder: string[]) {
      const files = await Array.fromAsync(workspaces.listFiles({ jobId, user, signal: neverAborted }, inFolder));
      return files.map(({ path }) => path).sort();
    },
    files: (...inFolder: string[]) =>
      Array.fromAsync(workspaces.listFiles({ jobId, user, signal: neverAborted }, inFolder)),
    open: (...path: string[]) => workspaces.openFile({ jobId, user, signal: neverAborted }, path),
    /** Reads a file or a part of it. Returns the error code if that fails. */
    async content(path: string, start = 0, length?: number): Promise<string> {
      try {
        const file = await workspaces.openFile({ jobId, user, signal: neverAborted }, path.split('/'));
        return await text(await file.read(start, length ?? file.size - start));
      } catch (error) {
        return (error as { code?: string }).code ?? String(error);
      }
    },
    archive: (...inFolder: string[]) => workspaces.archive({ jobId, user, signal: neverAborted }, inFolder),
    async log(stream: 'stdout' | 'stderr', offset = 0, maxBytes = 1_000_000) {
      const chunk = await workspaces.readLog({ jobId, user, signal: neverAborted }, stream, { offset, maxBytes });
      return chunk && { size: chunk.size, text: chunk.bytes.toString() };
    },
  };
}

export type TestWorkspace = Awaited<ReturnType<typeof openWorkspace>>;

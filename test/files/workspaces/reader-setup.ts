import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import type { Workspaces } from '../../../src/files/workspaces/workspaces.ts';
import { temporaryFolder } from '../temporary.ts';

export const jobId = 'BURSAR-JOB-TOOL-0123456789ABCDEF0123456789ABCDEF';
export const secret = 'SECRET: nobody may read this';
const never = new AbortController().signal;

/** Where a contract is tested. */
export interface ReaderEnvironment {
  /** Workspaces under a root, with a folder of their own for anything else. */
  make: MakeWorkspaces;
  /** How often a race is tried. */
  rounds: number;
  close(): Promise<void>;
}

type MakeWorkspaces = (root: string, folder: string) => Workspaces;

/** A job's workspace on this host's disk, and what a reader says of it. */
export async function openWorkspace(t: TestContext, makeWorkspaces: MakeWorkspaces) {
  const folder = await temporaryFolder(t);
  const root = join(folder, "it's the root");
  const home = join(root, jobId);
  const workspaces = makeWorkspaces(root, folder);
  const at = (...names: string[]) => join(home, 'files', ...names);
  await mkdir(join(folder, 'outside', 'deep', 'more'), { recursive: true });
  for (const name of ['file', 'deep/file', 'deep/more/file']) await writeFile(join(folder, 'outside', name), secret);

  return {
    folder,
    root,
    home,
    at,
    workspaces,
    outside: (...names: string[]) => join(folder, 'outside', ...names),
    /** Writes files into the job's working directory. */
    async put(files: Record<string, string | Uint8Array>) {
      await mkdir(at(), { recursive: true });
      for (const [name, content] of Object.entries(files)) {
        await mkdir(join(at(name), '..'), { recursive: true });
        await writeFile(at(name), content);
      }
    },
    async paths(...inFolder: string[]) {
      const files = await Array.fromAsync(workspaces.listFiles(jobId, inFolder, never));
      return files.map(({ path }) => path).sort();
    },
    files: (...inFolder: string[]) => Array.fromAsync(workspaces.listFiles(jobId, inFolder, never)),
    open: (...path: string[]) => workspaces.openFile(jobId, path, never),
    /** The content of a file, or a part of it; the code of the error otherwise. */
    async content(path: string, start = 0, length?: number): Promise<string> {
      try {
        const file = await workspaces.openFile(jobId, path.split('/'), never);
        return await text(await file.read(start, length ?? file.size - start));
      } catch (error) {
        return (error as { code?: string }).code ?? String(error);
      }
    },
    archive: (...inFolder: string[]) => workspaces.archive(jobId, inFolder, never),
    async log(stream: 'stdout' | 'stderr', offset = 0, maxBytes = 1_000_000) {
      const look = await workspaces.readLog(jobId, stream, { offset, maxBytes }, never);
      return look && { size: look.size, text: look.bytes.toString() };
    },
  };
}

export type TestWorkspace = Awaited<ReturnType<typeof openWorkspace>>;

import { execFile } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The descriptors of a named pipe that has no name any more. Each belongs to one job. */
export interface Pipe {
  /** Does not block. */
  readEnd: number;
  writeEnd: number;
}

/** Creates pipes for several jobs with one command: starting it takes longer than anything else that a pipe needs. */
export interface PipeStock {
  /** Creates the pipes in this folder, and removes their names at once. */
  take(folder: string): Promise<Pipe>;
}

const pipesPerCommand = 16;

export function createPipeStock(): PipeStock {
  const stock: Pipe[] = [];
  return {
    async take(folder) {
      for (;;) {
        const pipe = stock.pop();
        if (pipe !== undefined) return pipe;
        await createPipes(folder, (added) => stock.push(added));
      }
    },
  };
}

const execFileAsync = promisify(execFile);

async function createPipes(folder: string, add: (pipe: Pipe) => void): Promise<void> {
  const paths = Array.from({ length: pipesPerCommand }, (_, index) => join(folder, `pipe-${index}`));
  const env = { ...process.env, LC_ALL: 'C' };
  try {
    await execFileAsync('mkfifo', ['-m', '600', ...paths], { env, timeout: 10_000 });
    for (const path of paths) add(openPipe(path));
  } catch (error) {
    // The program does not pass on the error number, only its text.
    const isFull = /No space left|quota exceeded|Read-only file system/.test(String(error));
    throw Object.assign(new Error(`mkfifo failed: ${error}`), isFull && { code: 'ENOSPC', syscall: 'mkfifo' });
  } finally {
    for (const path of paths) await rm(path, { force: true });
  }
}

function openPipe(path: string): Pipe {
  // Open the read end first and non-blocking: opening one end alone would block until the other one is open.
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return { readEnd, writeEnd: openSync(path, constants.O_WRONLY) };
  } catch (error) {
    closeSync(readEnd);
    throw error;
  }
}

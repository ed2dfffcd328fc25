import { execFile } from 'node:child_process';
import { closeSync, constants, fchownSync, openSync } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { errnoCode } from '../../../domain/errors.ts';
import { diskRetryMs, isDiskRefusal } from '../durable-files.ts';

export interface OutputOptions {
  /** The file that receives the output. An existing file is replaced. */
  file: string;
  takePipe(): Promise<Pipe>;
  /** The account that opens the pipe by name, as `/dev/stdout`. Default: that of this process. */
  writer?: { uid: number; gid: number } | undefined;
  maxBytes: number;
  /** Called once, when the job has written more than `maxBytes`. The excess is read and dropped. */
  onExceeded(): void;
  onFailure(error: Error): void;
}

export interface Output {
  /** The file descriptor to pass to the job. */
  writeEnd: number;
  /** Starts reading. Closes the write end of this process, so that the output ends with the job. */
  startReading(): void;
  /**
   * Resolves when all output has been read and is durable, or at the timeout if a process still holds the pipe open.
   * While the disk refuses the output, waits longer, until `isAbandoned`. Safe to repeat.
   */
  finish(timeoutMs: number, isAbandoned: () => boolean): Promise<void>;
}

/**
 * Copies output streams of a job through named pipes into files. Node's own pipes are sockets, on which a job that opens
 * /dev/stdout or /dev/stderr by name, as shell scripts do, would fail.
 */
export async function openOutputs(streams: OutputOptions[]): Promise<Output[]> {
  const outputs: Output[] = [];
  try {
    for (const stream of streams) outputs.push(await openOutput(stream));
    return outputs;
  } catch (error) {
    for (const output of outputs) await output.finish(0, () => true);
    throw error;
  }
}

async function openOutput(options: OutputOptions): Promise<Output> {
  const { readEnd, writeEnd } = await options.takePipe();
  const file = await createFile(options, readEnd).catch((error) => {
    for (const end of [readEnd, writeEnd]) closeSync(end);
    throw error;
  });
  let socket: Socket | undefined;
  let copied: Promise<void> | undefined;
  let finishing: Promise<void> | undefined;
  let bytesLeft = options.maxBytes;
  let isExceeded = false;
  let isFailed = false;
  /** The disk has refused output that is not written yet. */
  let isRefused = false;
  let refusals = 0;
  let isGivenUp = () => false;

  function fail(error: unknown): void {
    if (isFailed) return;
    isFailed = true;
    options.onFailure(error instanceof Error ? error : new Error(String(error)));
  }

  /** Copies one chunk at a time: a slow disk then slows the job down instead of filling the memory. */
  async function copy(source: Socket): Promise<void> {
    try {
      for await (const chunk of source) {
        if (chunk.length > bytesLeft && !isExceeded) {
          isExceeded = true;
          options.onExceeded();
        }
        const kept = chunk.subarray(0, bytesLeft);
        bytesLeft -= kept.length;
        await write(kept);
      }
    } catch {
      // `finish` has closed the pipe, which a process that has left the job holds open. A pipe has no other errors.
    }
  }

  /** While the disk refuses the bytes, waits. After a failure, drops them, so that the job does not wait for a reader. */
  async function write(bytes: Buffer): Promise<void> {
    let unwritten = bytes;
    while (unwritten.length > 0 && !isFailed) {
      try {
        unwritten = unwritten.subarray((await file.write(unwritten)).bytesWritten);
        isRefused = false;
      } catch (error) {
        isRefused = isDiskRefusal(error);
        if (!isRefused || isGivenUp()) return fail(error);
        refusals++;
        await sleep(diskRetryMs);
      }
    }
  }

  /** Waits for the rest of the output. While the disk refuses output, nothing is read, and no time counts. */
  async function waitForCopy(copying: Promise<void>, timeoutMs: number): Promise<void> {
    for (let isCopied = false, wasRefused = true; !isCopied && wasRefused && !isFailed; ) {
      const [isWaiting, refusalsBefore] = [isRefused, refusals];
      const timer = new AbortController();
      const timeout = sleep(timeoutMs, false, { signal: timer.signal }).catch(() => false);
      isCopied = await Promise.race([copying.then(() => true), timeout]);
      timer.abort();
      wasRefused = isWaiting || refusals > refusalsBefore;
    }
  }

  async function finish(timeoutMs: number, isAbandoned: () => boolean): Promise<void> {
    if (socket === undefined || copied === undefined) {
      for (const end of [readEnd, writeEnd]) closeSync(end);
    } else {
      isGivenUp = isAbandoned;
      await waitForCopy(copied, timeoutMs);
      socket.destroy();
      await copied;
    }
    if (bytesLeft < options.maxBytes) await file.datasync().catch(fail);
    await file.close();
  }

  return {
    writeEnd,
    startReading() {
      closeSync(writeEnd);
      socket = new Socket({ fd: readEnd, readable: true, writable: false });
      copied = copy(socket);
    },
    finish: (timeoutMs, isAbandoned) => {
      finishing ??= finish(timeoutMs, isAbandoned);
      return finishing;
    },
  };
}

/** Replaces a symbolic link from the zip too: output is never written through it. */
async function createFile({ file, writer }: OutputOptions, readEnd: number): Promise<FileHandle> {
  if (writer !== undefined) fchownSync(readEnd, writer.uid, writer.gid);
  try {
    return await open(file, 'wx', 0o600);
  } catch (error) {
    if (errnoCode(error) !== 'EEXIST') throw error;
  }
  await rm(file);
  return await open(file, 'wx', 0o600);
}

/** The descriptors of a named pipe that has no name any more. Each belongs to one job. */
export interface Pipe {
  /** Does not block. */
  readEnd: number;
  writeEnd: number;
}

export type PipeStock = ReturnType<typeof createPipeStock>;

const pipesPerCommand = 16;

/** Creates pipes for several jobs with one command: starting it takes longer than anything else that a pipe needs. */
export function createPipeStock() {
  const stock: Pipe[] = [];
  return {
    /** Creates the pipes in this folder, and removes their names at once. */
    async take(folder: string): Promise<Pipe> {
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

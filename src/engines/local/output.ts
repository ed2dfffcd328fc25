import { execFile } from 'node:child_process';
import { closeSync, constants, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface OutputOptions {
  /** Where the output goes. Anything there is replaced. */
  file: string;
  /** A path for the pipe, which is there only for a moment. */
  pipe: string;
  /** The file never grows beyond this. */
  capBytes: number;
  /** Called once, when the job has written more than fits. What is too much is read and thrown away. */
  onExceeded(): void;
  onFailure(error: Error): void;
}

export interface Output {
  /** The end to give to the job. */
  writeEnd: number;
  /** Gives up Bursar's own write end, so that the output ends with the job, and starts reading. */
  read(): void;
  /**
   * Resolves when all has been read and is durable; after that many milliseconds even if somebody still holds
   * the pipe open. Repeating it changes nothing.
   */
  finish(patienceMs: number): Promise<void>;
}

/**
 * One of a job's output streams, on its way through a named pipe into a file. It is not one of Node's own pipes,
 * because those are sockets: a job that writes to /dev/stdout or /dev/stderr by name, as shell scripts do, would
 * fail on a socket.
 */
export async function openOutput(options: OutputOptions): Promise<Output> {
  await mkdir(dirname(options.file), { recursive: true });
  // Never written through a link that came with the zip.
  await rm(options.file, { force: true });
  const file = openSync(options.file, 'wx', 0o600);
  const { readEnd, writeEnd } = await openPipe(options.pipe);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let socket: Socket | null = null;
  let left = options.capBytes;
  let isExceeded = false;
  let isFailed = false;
  let finishing: Promise<void> | null = null;

  function keep(chunk: Buffer): void {
    if (chunk.length > left && !isExceeded) {
      isExceeded = true;
      options.onExceeded();
    }
    let part = chunk.subarray(0, left);
    left -= part.length;
    // Synchronously: a disk that is slower than the job slows the job down, instead of filling the memory.
    while (part.length > 0) part = part.subarray(writeSync(file, part));
  }

  function fail(error: unknown): void {
    if (isFailed) return;
    isFailed = true;
    left = 0;
    options.onFailure(error instanceof Error ? error : new Error(String(error)));
  }

  async function finish(patienceMs: number): Promise<void> {
    if (socket === null) {
      closeSync(writeEnd);
      closeSync(readEnd);
    } else {
      const enough = new AbortController();
      await Promise.race([ended, sleep(patienceMs, undefined, { signal: enough.signal }).catch(() => {})]);
      enough.abort();
      socket.destroy();
    }
    try {
      fdatasyncSync(file);
    } catch (error) {
      fail(error);
    }
    closeSync(file);
  }

  return {
    writeEnd,
    read() {
      closeSync(writeEnd);
      socket = new Socket({ fd: readEnd, readable: true, writable: false });
      socket.on('data', (chunk) => {
        try {
          if (!isFailed) keep(chunk);
        } catch (error) {
          fail(error);
        }
      });
      socket.on('error', fail);
      socket.on('close', () => end());
    },
    finish: (patienceMs) => {
      finishing ??= finish(patienceMs);
      return finishing;
    },
  };
}

async function openPipe(path: string): Promise<{ readEnd: number; writeEnd: number }> {
  await rm(path, { force: true });
  await run('mkfifo', ['-m', '600', path], { timeout: 10_000 });
  // The read end first, and without waiting: opening either end alone would wait for the other one.
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeEnd = openSync(path, constants.O_WRONLY);
  rmSync(path);
  return { readEnd, writeEnd };
}

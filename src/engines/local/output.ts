import { spawnSync } from 'node:child_process';
import { chownSync, closeSync, constants, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { diskRetryMs, isDiskRefusal } from './disk-retry.ts';

export interface OutputOptions {
  /** The file that receives the output. An existing file is replaced. */
  file: string;
  /** A path for the named pipe, which is removed as soon as it is open. */
  pipe: string;
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
  finish(timeoutMs: number, isAbandoned: () => Promise<boolean>): Promise<void>;
}

/**
 * Copies output streams of a job through named pipes into files. Node's own pipes are sockets, on which a job that opens
 * /dev/stdout or /dev/stderr by name, as shell scripts do, would fail.
 */
export async function openOutputs(streams: OutputOptions[]): Promise<Output[]> {
  await createPipes(streams.map(({ pipe }) => pipe));
  const outputs: Output[] = [];
  try {
    for (const stream of streams) outputs.push(await openOutput(stream));
    return outputs;
  } catch (error) {
    for (const output of outputs) await output.finish(0, async () => true);
    throw error;
  }
}

async function openOutput(options: OutputOptions): Promise<Output> {
  await mkdir(dirname(options.file), { recursive: true });
  // Remove any symbolic link from the zip, so that output is never written through it.
  await rm(options.file, { force: true });
  const file = openSync(options.file, 'wx', 0o600);
  const { readEnd, writeEnd } = await openPipe(options.pipe, options.writer).catch((error) => {
    closeSync(file);
    throw error;
  });
  const { promise: ended, resolve: markEnded } = Promise.withResolvers<void>();
  let socket: Socket | null = null;
  let bytesLeft = options.maxBytes;
  let isExceeded = false;
  let isFailed = false;
  let finishing: Promise<void> | null = null;
  /** Output that was read and is not written yet, because the disk refused it. */
  let unwritten: Buffer = Buffer.alloc(0);
  let diskError: unknown;
  let wasRefused = false;

  function receive(chunk: Buffer): void {
    if (chunk.length > bytesLeft && !isExceeded) {
      isExceeded = true;
      options.onExceeded();
    }
    unwritten = chunk.subarray(0, bytesLeft);
    bytesLeft -= unwritten.length;
    write();
  }

  /** Writes synchronously: a slow disk then slows the job down instead of filling the memory. On a full disk it waits. */
  function write(): void {
    if (isFailed) return;
    try {
      while (unwritten.length > 0) unwritten = unwritten.subarray(writeSync(file, unwritten));
      socket?.resume();
    } catch (error) {
      if (isDiskRefusal(error)) {
        diskError = error;
        wasRefused = true;
        socket?.pause();
        setTimeout(write, diskRetryMs);
      } else fail(error);
    }
  }

  function fail(error: unknown): void {
    if (isFailed) return;
    isFailed = true;
    bytesLeft = 0;
    unwritten = Buffer.alloc(0);
    // Further output is read and dropped, so that the job does not wait for a reader.
    socket?.resume();
    options.onFailure(error instanceof Error ? error : new Error(String(error)));
  }

  async function waitForRest(timeoutMs: number, isAbandoned: () => Promise<boolean>): Promise<void> {
    do {
      wasRefused = unwritten.length > 0;
      const timer = new AbortController();
      await Promise.race([ended, sleep(timeoutMs, undefined, { signal: timer.signal }).catch(() => {})]);
      timer.abort();
      while (unwritten.length > 0 && !(await isAbandoned())) await sleep(diskRetryMs);
      if (unwritten.length > 0) fail(diskError);
      // While the disk refuses output, nothing is read: the pipe may still be full.
    } while (wasRefused && !isFailed);
  }

  async function finish(timeoutMs: number, isAbandoned: () => Promise<boolean>): Promise<void> {
    if (socket === null) {
      closeSync(writeEnd);
      closeSync(readEnd);
    } else {
      await waitForRest(timeoutMs, isAbandoned);
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
    startReading() {
      closeSync(writeEnd);
      socket = new Socket({ fd: readEnd, readable: true, writable: false });
      socket.on('data', (chunk) => {
        if (!isFailed) receive(chunk);
      });
      socket.on('error', fail);
      socket.on('close', () => markEnded());
    },
    finish: (timeoutMs, isAbandoned) => {
      finishing ??= finish(timeoutMs, isAbandoned);
      return finishing;
    },
  };
}

/** Creates all pipes with one command: starting it takes longer than anything else here. */
async function createPipes(paths: string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true });
  const env = { ...process.env, LC_ALL: 'C' };
  const { error, status, stderr } = spawnSync('mkfifo', ['-m', '600', ...paths], {
    env,
    encoding: 'utf8',
    timeout: 10_000,
  });
  if (error === undefined && status === 0) return;
  // The program does not pass on the error number, only its text.
  const isFull = /No space left|quota exceeded|Read-only file system/.test(stderr);
  throw Object.assign(error ?? new Error(`mkfifo failed: ${stderr}`), isFull && { code: 'ENOSPC', syscall: 'mkfifo' });
}

async function openPipe(path: string, writer: OutputOptions['writer']): Promise<{ readEnd: number; writeEnd: number }> {
  if (writer !== undefined) chownSync(path, writer.uid, writer.gid);
  // Open the read end first and non-blocking: opening one end alone would block until the other one is open.
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeEnd = openSync(path, constants.O_WRONLY);
  rmSync(path);
  return { readEnd, writeEnd };
}

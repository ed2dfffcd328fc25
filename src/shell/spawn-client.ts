import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { BursarError } from '../domain/errors.ts';
import { baseEnvironment } from './base-environment.ts';
import {
  parseCommand,
  type RunningProcess,
  type StartProcess,
  startProcess as startDirectly,
  startError,
} from './process.ts';
import { unavailableError } from './shell-errors.ts';

/**
 * Starts processes in a small process of its own, the spawn server: Node starts a process by a fork, which blocks the event
 * loop for the longer the more memory the process has (1.3 ms of CPU time with 50 MB, 8 ms with 370 MB).
 */
export interface SpawnClient {
  /**
   * Starts a command. If the server ends, its commands are killed and fail as `unavailable`: they may or may not have taken
   * effect. Commands whose input is a stream are started directly.
   */
  startProcess: StartProcess;
}

export function createSpawnClient({ maxResponseMs = 30_000 } = {}): SpawnClient {
  const connection = createSpawnConnection(maxResponseMs);
  return {
    startProcess: (argv, options, stdin) =>
      stdin instanceof Readable
        ? startDirectly(argv, options, stdin)
        : startCommand(connection, parseCommand(argv), options, stdin),
  };
}

type Command = ReturnType<typeof parseCommand>;

/** How long the caller of a killed command waits for its end. The server waits for a shorter time. */
const maxKillMs = 2000;

async function startCommand(
  connection: SpawnConnection,
  command: Command,
  { label, environment }: Parameters<StartProcess>[1],
  stdin: string | Uint8Array | undefined,
): Promise<RunningProcess> {
  const started = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<number | null>();
  closed.promise.catch(() => undefined); // of a command that did not start
  const stdout = new Readable({ read: () => undefined });
  const stderr = new Readable({ read: () => undefined });
  let groupId: number | undefined;

  const entry = openEntry(connection, label, {
    handleReport(report) {
      if (report.kind === 'started') {
        groupId = report.pid;
        started.resolve();
      } else if (report.kind === 'failed') {
        fail(startError(label, Object.assign(new Error(report.message), { code: report.code })));
      } else if (report.kind === 'closed') {
        entry.close();
        for (const stream of [stdout, stderr]) stream.push(null);
        // The readers get all output first.
        void Promise.allSettled([finished(stdout), finished(stderr)]).then(() => closed.resolve(report.code));
      } else if (report.kind === 'stdout') stdout.push(report.bytes);
      else if (report.kind === 'stderr') stderr.push(report.bytes);
    },
    handleLoss(cause) {
      killGroupById(groupId);
      fail(unavailableError(`${label} was interrupted: the process that starts commands has ended.`, cause));
    },
  });

  function fail(error: BursarError): void {
    entry.close();
    started.reject(error);
    closed.reject(error);
    for (const stream of [stdout, stderr]) stream.destroy();
  }

  entry.send({ kind: 'start', ...command, environment, stdin });
  await started.promise;
  return {
    stdin: null,
    stdout,
    stderr,
    closed: closed.promise,
    hasExited: () => !entry.isOpen(),
    kill() {
      for (const stream of [stdout, stderr]) stream.destroy();
      if (!entry.isOpen()) return;
      entry.send({ kind: 'kill' });
      // A server that hangs must not delay the caller as well.
      setTimeout(() => closed.resolve(null), maxKillMs).unref();
    },
  };
}

function openEntry(connection: SpawnConnection, label: string, observer: SpawnObserver): SpawnedEntry {
  try {
    return connection.open(observer);
  } catch (error) {
    throw startError(label, error);
  }
}

function killGroupById(groupId: number | undefined): void {
  try {
    if (groupId !== undefined) process.kill(-groupId, 'SIGKILL');
  } catch {
    // The whole group has already ended.
  }
}

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;

export type SpawnRequest =
  | {
      kind: 'start';
      id: number;
      program: string;
      args: string[];
      environment: Record<string, string>;
      stdin: string | Uint8Array | undefined;
    }
  | { kind: 'kill'; id: number };

export type SpawnReport =
  | { kind: 'started'; id: number; pid: number | undefined }
  /** The program could not be started. */
  | { kind: 'failed'; id: number; code: string | undefined; message: string }
  | { kind: 'stdout' | 'stderr'; id: number; bytes: Uint8Array }
  | { kind: 'closed'; id: number; code: number | null };

export interface SpawnObserver {
  handleReport(report: SpawnReport): void;
  /** The server has ended, or could not be started. */
  handleLoss(cause: Error | undefined): void;
}

/** Sends requests about one process to the server. Its reports go to the observer. */
export interface SpawnedEntry {
  send(request: WithoutId<SpawnRequest>): void;
  isOpen(): boolean;
  /** No further reports are expected. */
  close(): void;
}

export interface SpawnConnection {
  /** Throws if the server cannot be started. */
  open(observer: SpawnObserver): SpawnedEntry;
}

/**
 * The connection to the spawn server. The server is started with the first process, and again after it has ended. It ends
 * with this process, also if that is killed. A server that does not confirm a request within `maxResponseMs` is killed.
 */
export function createSpawnConnection(maxResponseMs: number): SpawnConnection {
  const observers = new Map<number, SpawnObserver & { server: ChildProcess }>();
  let server: ChildProcess | undefined;
  let lastId = 0;

  function startServer(): ChildProcess {
    // The script is in the folder of this file and has the same extension, also in the build.
    const script = fileURLToPath(new URL(`./spawn-server${extname(import.meta.url)}`, import.meta.url));
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script], {
      cwd: '/',
      env: baseEnvironment(),
      // A session of its own: it does not get the signals of a terminal.
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
    });
    child.on('message', (report: SpawnReport) => observers.get(report.id)?.handleReport(report));
    const handleEnd = (cause?: Error) => {
      if (server === child) server = undefined;
      child.kill('SIGKILL');
      for (const observer of observers.values()) if (observer.server === child) observer.handleLoss(cause);
    };
    child.on('error', handleEnd);
    child.on('exit', () => handleEnd());
    child.on('disconnect', () => handleEnd());
    child.unref();
    return child;
  }

  function updateReference(child: ChildProcess): void {
    if (observers.size > 0) child.channel?.ref();
    else child.channel?.unref();
  }

  return {
    open({ handleReport, handleLoss }) {
      server ??= startServer();
      const child = server;
      const id = ++lastId;
      let timer: NodeJS.Timeout | undefined;
      observers.set(id, {
        server: child,
        handleReport(report) {
          if (report.kind === 'started') clearTimeout(timer);
          handleReport(report);
        },
        handleLoss,
      });
      updateReference(child);
      return {
        send(request) {
          clearTimeout(timer);
          timer = setTimeout(() => child.kill('SIGKILL'), maxResponseMs).unref();
          // Without a channel the server could not be started, or has just ended: an event that says so follows.
          if (child.connected) child.send({ ...request, id }, (error) => error && child.kill('SIGKILL'));
        },
        isOpen: () => observers.has(id),
        close() {
          clearTimeout(timer);
          observers.delete(id);
          updateReference(child);
        },
      };
    },
  };
}

import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { baseEnvironment } from './base-environment.ts';

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

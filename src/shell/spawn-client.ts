import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { BursarError } from '../domain/errors.ts';
import { baseEnvironment } from './base-environment.ts';
import { killGroup, parseCommand, type StartProcess, startProcess as startDirectly, startError } from './process.ts';
import { unavailableError } from './shell.ts';

export type SpawnRequest =
  | {
      kind: 'start';
      id: number;
      argv: readonly string[];
      environment: Record<string, string>;
      label: string;
      stdin: string | Uint8Array | undefined;
    }
  | { kind: 'kill'; id: number };

export type SpawnReport =
  | { kind: 'started'; id: number; pid: number | undefined }
  /** The program could not be started. */
  | { kind: 'failed'; id: number; message: string }
  | { kind: 'stdout' | 'stderr'; id: number; bytes: Uint8Array }
  | { kind: 'closed'; id: number; code: number | null };

/** A command in progress. */
interface SpawnedCommand {
  server: ChildProcess;
  handleReport(report: SpawnReport): void;
  /** The server has ended, or could not be started. */
  handleLoss(cause: Error | undefined): void;
}

/** How long the caller of a killed command waits for its end: a process ends only when a file system answers that it waits for. */
const maxKillMs = 2000;

/**
 * Returns a function that starts commands in a small process of its own, the spawn server: Node starts a process by a fork, which
 * blocks the event loop for the longer the more memory the process has (1.3 ms of CPU time with 50 MB, 8 ms with 370 MB). If the
 * server ends, its commands are killed and fail as `unavailable`: they may or may not have taken effect. Commands whose input is a
 * stream are started directly.
 *
 * The server is started with the first command, and again after it has ended. It ends with this process, even if that is killed.
 * A server that does not confirm a start within `maxResponseMs` is killed.
 */
export function createSpawnClient({ maxResponseMs = 30_000 } = {}): StartProcess {
  const commands = new Map<number, SpawnedCommand>();
  let current: ChildProcess | undefined;
  let lastId = 0;

  function startServer(): ChildProcess {
    const server = spawnServer();
    server.on('message', (report: SpawnReport) => commands.get(report.id)?.handleReport(report));
    const handleEnd = (cause?: Error) => {
      if (current === server) current = undefined;
      server.kill('SIGKILL');
      for (const command of commands.values()) if (command.server === server) command.handleLoss(cause);
    };
    server.on('error', handleEnd);
    server.on('exit', () => handleEnd());
    server.on('disconnect', () => handleEnd());
    return server;
  }

  function requireServer(label: string): ChildProcess {
    try {
      current ??= startServer();
      return current;
    } catch (error) {
      throw startError(label, error);
    }
  }

  function updateReference({ channel }: ChildProcess): void {
    if (commands.size > 0) channel?.ref();
    else channel?.unref();
  }

  const startCommand: StartProcess = async (argv, { label, environment }, stdin) => {
    parseCommand(argv);
    const server = requireServer(label);
    const id = ++lastId;
    const started = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<number | null>();
    closed.promise.catch(() => undefined); // of a command that did not start
    const stdout = new Readable({ read: () => undefined });
    const stderr = new Readable({ read: () => undefined });
    let groupId: number | undefined;
    let timer: NodeJS.Timeout | undefined;

    function send(request: SpawnRequest): void {
      // Without a channel the server could not be started, or has just ended: an event that says so follows.
      if (server.connected) server.send(request, (error) => error && server.kill('SIGKILL'));
    }

    function close(): void {
      clearTimeout(timer);
      commands.delete(id);
      updateReference(server);
    }

    function fail(error: BursarError): void {
      close();
      started.reject(error);
      closed.reject(error);
      for (const stream of [stdout, stderr]) stream.destroy();
    }

    commands.set(id, {
      server,
      handleReport(report) {
        if (report.kind === 'started') {
          clearTimeout(timer);
          groupId = report.pid;
          started.resolve();
        } else if (report.kind === 'failed') {
          fail(unavailableError(report.message));
        } else if (report.kind === 'closed') {
          close();
          for (const stream of [stdout, stderr]) stream.push(null);
          // The readers get all output first.
          void Promise.allSettled([finished(stdout), finished(stderr)]).then(() => closed.resolve(report.code));
        } else (report.kind === 'stdout' ? stdout : stderr).push(report.bytes);
      },
      handleLoss(cause) {
        killGroup(groupId);
        fail(unavailableError(`${label} was interrupted: the process that starts commands has ended.`, cause));
      },
    });
    updateReference(server);
    timer = setTimeout(() => server.kill('SIGKILL'), maxResponseMs).unref();
    send({ kind: 'start', id, argv, environment, label, stdin: stdin as string | Uint8Array | undefined });
    await started.promise;
    return {
      pid: groupId,
      stdin: null,
      stdout,
      stderr,
      closed: closed.promise,
      hasExited: () => !commands.has(id),
      kill() {
        for (const stream of [stdout, stderr]) stream.destroy();
        if (!commands.has(id)) return;
        send({ kind: 'kill', id });
        setTimeout(() => {
          if (!commands.has(id)) return;
          // A server that hangs has not done it.
          killGroup(groupId);
          close();
          closed.resolve(null);
        }, maxKillMs).unref();
      },
    };
  };

  return (argv, options, stdin) =>
    stdin instanceof Readable ? startDirectly(argv, options, stdin) : startCommand(argv, options, stdin);
}

function spawnServer(): ChildProcess {
  // The script is in the folder of this file and has the same extension, also in the build.
  const script = fileURLToPath(new URL(`./spawn-server${extname(import.meta.url)}`, import.meta.url));
  const server = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script], {
    cwd: '/',
    env: baseEnvironment(),
    // A session of its own: it does not get the signals of a terminal.
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
  server.unref();
  return server;
}

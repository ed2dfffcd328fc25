import { type ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { BursarError } from '../domain/errors.ts';
import { baseEnvironment } from './base-environment.ts';
import { parseCommand, type StartProcess, startProcess as startDirectly, startError } from './process.ts';
import { unavailableError } from './shell-errors.ts';

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

/** A command that the server has not reported as closed. */
interface Command {
  server: ChildProcess;
  handleReport(report: SpawnReport): void;
  /** The server has ended, or could not be started. */
  handleLoss(cause: Error | undefined): void;
}

/**
 * Starts commands in a small process of its own, the spawn server: Node starts a process by a fork, which blocks the event
 * loop for the longer the more memory the process has (1.3 ms of CPU time with 50 MB, 8 ms with 370 MB).
 *
 * The server is started with the first command, and again after it has ended. It ends with this process, also if that is
 * killed. If the server ends, its commands are killed and fail as `unavailable`: they may or may not have taken effect.
 * Commands whose input is a stream are started directly. A server that does not confirm a start or a kill within
 * `maxResponseMs` is killed.
 */
export function createSpawnClient({ maxResponseMs = 30_000 } = {}): StartProcess {
  const commands = new Map<number, Command>();
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
    child.on('message', (report: SpawnReport) => commands.get(report.id)?.handleReport(report));
    const handleEnd = (cause?: Error) => {
      if (server === child) server = undefined;
      child.kill('SIGKILL');
      for (const command of commands.values()) if (command.server === child) command.handleLoss(cause);
    };
    child.on('error', handleEnd);
    child.on('exit', () => handleEnd());
    child.on('disconnect', () => handleEnd());
    child.unref();
    return child;
  }

  function useServer(label: string): ChildProcess {
    try {
      server ??= startServer();
      return server;
    } catch (error) {
      throw startError(label, error);
    }
  }

  /** Only a command in progress keeps this process alive. */
  function updateReference(child: ChildProcess): void {
    if (commands.size > 0) child.channel?.ref();
    else child.channel?.unref();
  }

  return async (argv, options, stdin) => {
    if (stdin instanceof Readable) return await startDirectly(argv, options, stdin);
    const { program, args } = parseCommand(argv);
    const { label, environment } = options;
    const child = useServer(label);
    const id = ++lastId;
    const started = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<number | null>();
    closed.promise.catch(() => undefined); // of a command that did not start
    const stdout = new Readable({ read: () => undefined });
    const stderr = new Readable({ read: () => undefined });
    let groupId: number | undefined;

    let timer: NodeJS.Timeout | undefined;
    const expectResponse = () => {
      clearTimeout(timer);
      timer = setTimeout(() => child.kill('SIGKILL'), maxResponseMs);
    };
    const send = (request: SpawnRequest) => {
      expectResponse();
      // Without a channel the server could not be started, or has just ended: an event that says so follows.
      if (child.connected) child.send(request, (error) => error && child.kill('SIGKILL'));
    };
    const end = () => {
      clearTimeout(timer);
      commands.delete(id);
      updateReference(child);
    };
    const fail = (error: BursarError) => {
      end();
      started.reject(error);
      closed.reject(error);
      for (const stream of [stdout, stderr]) stream.destroy();
    };

    commands.set(id, {
      server: child,
      handleReport(report) {
        if (report.kind === 'started') {
          clearTimeout(timer);
          groupId = report.pid;
          started.resolve();
        } else if (report.kind === 'failed') {
          fail(startError(label, Object.assign(new Error(report.message), { code: report.code })));
        } else if (report.kind === 'closed') {
          end();
          for (const stream of [stdout, stderr]) stream.push(null);
          // The readers get all output first.
          void Promise.allSettled([finished(stdout), finished(stderr)]).then(() => closed.resolve(report.code));
        } else (report.kind === 'stdout' ? stdout : stderr).push(report.bytes);
      },
      handleLoss(cause) {
        killGroupById(groupId);
        fail(unavailableError(`${label} was interrupted: the process that starts commands has ended.`, cause));
      },
    });
    updateReference(child);
    send({ kind: 'start', id, program, args, environment, stdin });
    await started.promise;
    return {
      stdin: null,
      stdout,
      stderr,
      closed: closed.promise,
      hasExited: () => !commands.has(id),
      kill() {
        for (const stream of [stdout, stderr]) stream.destroy();
        if (commands.has(id)) send({ kind: 'kill', id });
      },
    };
  };
}

function killGroupById(groupId: number | undefined): void {
  try {
    if (groupId !== undefined) process.kill(-groupId, 'SIGKILL');
  } catch {
    // The whole group has already ended.
  }
}

import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { BursarError } from '../domain/errors.ts';
import {
  parseCommand,
  type RunningProcess,
  type StartProcess,
  startProcess as startDirectly,
  startError,
} from './process.ts';
import { unavailableError } from './shell-errors.ts';
import {
  createSpawnConnection,
  type SpawnConnection,
  type SpawnedEntry,
  type SpawnObserver,
} from './spawn-connection.ts';

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

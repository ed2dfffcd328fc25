import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { killGroup, type SpawnedProcess, spawnOptions } from './process-group.ts';
import type { SpawnReport, SpawnRequest } from './spawn-client.ts';

// The process that `createSpawnClient` uses. It imports little, so that it stays small: see there.

process.umask(0o077);

type RequestOf<Kind> = Extract<SpawnRequest, { kind: Kind }>;

/** How long the end of a killed command is awaited. */
const maxEndMs = 1000;

const running = new Map<number, SpawnedProcess>();

/** Bursar may have ended: then nobody needs the report. */
const send = (report: SpawnReport, onSent = () => {}) => void process.send?.(report, onSent);

/** Sends one chunk at a time: otherwise the output of a fast command would be kept in the memory of this process. */
function forward(id: number, kind: 'stdout' | 'stderr', output: Readable): void {
  output.on('data', (bytes: Buffer) => {
    output.pause();
    send({ kind, id, bytes }, () => output.resume());
  });
}

function reportEnd(id: number, code: number | null): void {
  if (running.delete(id)) send({ kind: 'closed', id, code });
}

function start({ id, program, args, environment, stdin }: RequestOf<'start'>): void {
  const fail = (error: NodeJS.ErrnoException) => {
    running.delete(id);
    send({ kind: 'failed', id, code: error.code, message: error.message });
  };
  try {
    const child = spawn(program, args, spawnOptions(environment, stdin !== undefined)) as SpawnedProcess;
    child.on('error', fail);
    // Without file descriptors it has no streams either. The error follows.
    if (child.pid === undefined) return;
    running.set(id, child);
    child.on('spawn', () => send({ kind: 'started', id, pid: child.pid }));
    forward(id, 'stdout', child.stdout);
    forward(id, 'stderr', child.stderr);
    child.on('close', (code) => reportEnd(id, code));
    child.stdin?.on('error', () => undefined); // a command need not read all of its input
    child.stdin?.end(stdin);
  } catch (error) {
    fail(error as NodeJS.ErrnoException);
  }
}

function kill({ id }: RequestOf<'kill'>): void {
  const child = running.get(id);
  if (child === undefined) return;
  killGroup(child);
  // A killed process does nothing more, but ends only when a file system answers that it waits for. Nobody waits for that.
  setTimeout(() => reportEnd(id, null), maxEndMs);
}

process.on('message', (request: SpawnRequest) => {
  if (request.kind === 'start') start(request);
  else kill(request);
});
// Bursar has ended. Processes in progress run to their end, as they would without this one.
process.on('disconnect', () => process.exit());
// A service manager sends these to all processes. Bursar still runs commands while it stops, and closes the channel then.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined);

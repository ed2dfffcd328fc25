import type { Readable } from 'node:stream';
import type { BursarError } from '../domain/errors.ts';
import { pipeInput, type RunningProcess, startProcess } from './process.ts';
import type { SpawnReport, SpawnRequest } from './spawn-client.ts';

// The process that `createSpawnClient` uses. It imports little, so that it stays small: see there.

process.umask(0o077);

const running = new Map<number, RunningProcess>();

/** Bursar may have ended: then nobody needs the report. */
const send = (report: SpawnReport, onSent = () => {}) => void process.send?.(report, onSent);

/** Sends one chunk at a time: otherwise the output of a fast command would be kept in the memory of this process. */
function forward(id: number, kind: 'stdout' | 'stderr', output: Readable): void {
  output.on('data', (bytes: Buffer) => {
    output.pause();
    send({ kind, id, bytes }, () => output.resume());
  });
}

async function start({ id, argv, stdin, ...options }: Extract<SpawnRequest, { kind: 'start' }>): Promise<void> {
  try {
    const child = await startProcess(argv, options, stdin);
    running.set(id, child);
    send({ kind: 'started', id, pid: child.pid });
    forward(id, 'stdout', child.stdout);
    forward(id, 'stderr', child.stderr);
    pipeInput(child, stdin, () => undefined);
    const code = await child.closed.catch(() => null);
    running.delete(id);
    send({ kind: 'closed', id, code });
  } catch (error) {
    send({ kind: 'failed', id, message: (error as BursarError).message });
  }
}

process.on('message', (request: SpawnRequest) => {
  if (request.kind === 'start') void start(request);
  else running.get(request.id)?.kill();
});
// Bursar has ended. Processes in progress run to their end, as they would without this one.
process.on('disconnect', () => process.exit());
// A service manager sends these to all processes. Bursar still runs commands while it stops, and closes the channel then.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => undefined);

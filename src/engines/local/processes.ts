import { setTimeout as sleep } from 'node:timers/promises';
import { systemErrorCode } from '../../domain/errors.ts';
import type { JobProcesses, ProcessId, ProcessTable } from './process-table.ts';
import { linuxProcesses } from './processes-linux.ts';
import { psProcesses } from './processes-ps.ts';

const table: ProcessTable = process.platform === 'linux' ? linuxProcesses : psProcesses;

/** To be called while the process is known to be this one and no other. */
export async function identify(pid: number): Promise<ProcessId> {
  const seen = await table.look(pid);
  return { pid, mark: seen?.mark ?? null };
}

export async function isAlive(id: ProcessId): Promise<boolean> {
  const seen = await table.look(id.pid);
  return seen !== null && !seen.ended && seen.mark === id.mark;
}

/** True also for an ended process, and for a later one of the same number: for when keeping too much is harmless. */
export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemErrorCode(error) !== 'ESRCH';
  }
}

/** Does nothing to a process that has ended, or to a later one of the same number. */
export async function signalProcess(id: ProcessId, signal: NodeJS.Signals): Promise<void> {
  if (await isAlive(id)) send(id.pid, signal);
}

/** Memory that the job's processes hold together, in KiB; what they share is counted for each. */
export async function residentKb(job: JobProcesses): Promise<number> {
  const { processes } = await table.find(job);
  return processes.reduce((sum, { residentKb }) => sum + residentKb, 0);
}

/** Asks all of the job's processes to end, and waits until they have. False after that many milliseconds. */
export async function terminateJob(job: JobProcesses, patienceMs: number): Promise<boolean> {
  // A process that is stopped would not notice that it was asked to end.
  await signalJob(job, 'SIGTERM', 'SIGCONT').catch(() => 0);
  return repeat(patienceMs, async () => (await table.find(job)).processes.length === 0);
}

/**
 * Kills all of the job's processes and waits until they are gone. False when some would not go (they hang in the
 * kernel). A job that sets out to hide a process, with a new session and an empty environment, can.
 */
export async function killJob(job: JobProcesses, patienceMs = 5_000): Promise<boolean> {
  let emptyLooks = 0;
  return repeat(patienceMs, async () => {
    // A process that is just starting another program has no environment for a moment: one empty look is not enough.
    emptyLooks = (await signalJob(job, 'SIGKILL')) === 0 ? emptyLooks + 1 : 0;
    return emptyLooks >= 2;
  });
}

/** Signals all of the job's processes. The answer is how many there were. */
async function signalJob(job: JobProcesses, ...signals: NodeJS.Signals[]): Promise<number> {
  const { group, processes } = await table.find(job);
  for (const signal of signals) {
    // The group at one stroke, so that none of it escapes by forking; the strays one by one.
    if (group !== null) send(-group, signal);
    for (const { pid } of processes) send(pid, signal);
  }
  return processes.length;
}

async function repeat(patienceMs: number, attempt: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + patienceMs;
  for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 2, 200)) {
    if (await attempt().catch(() => false)) return true;
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return false;
    await sleep(Math.min(pauseMs, leftMs));
  }
}

function send(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // It has ended in the meantime, or (as a group of ended processes on macOS) cannot be signalled any more.
  }
}

import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../domain/errors.ts';
import type { FoundProcesses, JobProcessSelector, ProcessId, ProcessScan, ProcessTable } from './process-table.ts';
import { linuxProcesses } from './processes-linux.ts';
import { psProcesses } from './processes-ps.ts';

const table: ProcessTable = process.platform === 'linux' ? linuxProcesses : psProcesses;

/** Call this only while the pid cannot have been reused. */
export async function identifyProcess(pid: number): Promise<ProcessId> {
  const entry = await table.read(pid);
  return { pid, mark: entry?.mark ?? null };
}

export async function isAlive(id: ProcessId): Promise<boolean> {
  const entry = await table.read(id.pid);
  return entry !== null && !entry.isZombie && entry.mark === id.mark;
}

/** True also for a zombie, and for a later process with the same pid. */
export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoCode(error) !== 'ESRCH';
  }
}

/** Returns false, without an effect, if the process has ended, even if a later one has the same pid. */
export async function signalProcess(id: ProcessId, ...signals: NodeJS.Signals[]): Promise<boolean> {
  if (!(await isAlive(id))) return false;
  for (const signal of signals) sendSignal(id.pid, signal);
  return true;
}

export function scanProcesses(): Promise<ProcessScan> {
  return table.scan();
}

async function findJobProcesses(job: JobProcessSelector): Promise<FoundProcesses> {
  return (await table.scan()).findJobProcesses(job);
}

export async function hasProcesses(job: JobProcessSelector): Promise<boolean> {
  return (await findJobProcesses(job)).processes.length > 0;
}

/** Adds up the resident memory of all processes of the job. Shared memory is counted once for each process. */
export function readResidentKib(scan: ProcessScan, job: JobProcessSelector): number {
  return scan.findJobProcesses(job).processes.reduce((sum, { residentKib }) => sum + residentKib, 0);
}

/** Waits until a process has ended. Returns false at the timeout. */
export function waitForProcessEnd(id: ProcessId, timeoutMs: number): Promise<boolean> {
  return retryUntil(timeoutMs, async () => !(await isAlive(id)));
}

/** Sends SIGTERM to all processes of the job and waits until they have ended. Returns false at the timeout. */
export async function terminateJob(job: JobProcessSelector, timeoutMs: number): Promise<boolean> {
  if (job.isSandboxed && job.leader !== null) return terminateSandbox(job, job.leader.pid, timeoutMs);
  // A stopped process handles SIGTERM only after SIGCONT.
  await signalJob(job, 'SIGTERM', 'SIGCONT').catch(() => 0);
  return retryUntil(timeoutMs, async () => (await findJobProcesses(job)).processes.length === 0);
}

/**
 * Bubblewrap ends when the job's first process ends, and the kernel then kills all others. It is stopped, so that they have
 * time to save their results too. Only `killJob` ends it.
 */
async function terminateSandbox(job: JobProcessSelector, bubblewrap: number, timeoutMs: number): Promise<boolean> {
  const findInside = async () =>
    (await findJobProcesses(job)).processes.map(({ pid }) => pid).filter((pid) => pid !== bubblewrap);
  sendSignal(bubblewrap, 'SIGSTOP');
  for (const pid of await findInside().catch(() => [])) {
    sendSignal(pid, 'SIGTERM');
    sendSignal(pid, 'SIGCONT');
  }
  return retryUntil(timeoutMs, async () => (await findInside()).length === 0);
}

/**
 * Kills all processes of the job and waits until they have ended. Returns false if some have not (they hang in the
 * kernel). A job can hide a process deliberately, with a new session and an empty environment.
 */
export async function killJob(job: JobProcessSelector, timeoutMs = 5_000): Promise<boolean> {
  let emptyScans = 0;
  return retryUntil(timeoutMs, async () => {
    // A process has no environment for a moment during exec, so that one empty scan is not enough.
    emptyScans = (await signalJob(job, 'SIGKILL')) === 0 ? emptyScans + 1 : 0;
    return emptyScans >= 2;
  });
}

/** Signals all processes of the job. Returns their number. */
async function signalJob(job: JobProcessSelector, ...signals: NodeJS.Signals[]): Promise<number> {
  const { group, processes } = await findJobProcesses(job);
  for (const signal of signals) {
    // Signal the group in one call, so that no process escapes by forking; then those that left the group.
    if (group !== null) sendSignal(-group, signal);
    for (const { pid } of processes) sendSignal(pid, signal);
  }
  return processes.length;
}

async function retryUntil(timeoutMs: number, attempt: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, 200)) {
    if (await attempt().catch(() => false)) return true;
    const remainingMs = deadline - performance.now();
    if (remainingMs <= 0) return false;
    await sleep(Math.min(pauseMs, remainingMs));
  }
}

function sendSignal(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // The target has ended, or is a group of zombies, which macOS refuses to signal.
  }
}

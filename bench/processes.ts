import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { readProcessFile } from '../test/support/process-file.ts';

/** The server under test has one CPU, the load generator another one. */
export const serverCpu = 0;
export const loadCpu = Math.min(1, availableParallelism() - 1);

/** Pins a process to one CPU, with its present and future threads. */
export function pinToCpu(pid: number | undefined, cpu: number): void {
  if (pid === undefined) throw new Error('the process did not start');
  execFileSync('taskset', ['-a', '-p', '-c', String(cpu), String(pid)], { stdio: 'ignore' });
}

/**
 * Lets the jobs of a pinned server run on another CPU: moves its supervisors there, with the jobs that they start from then on.
 * Returns a function that stops that.
 */
export function moveJobs(pid: number | undefined, cpu: number): () => void {
  const moved = new Set<number>();
  const timer = setInterval(() => {
    for (const child of childrenOf(pid).filter((id) => !moved.has(id))) {
      moved.add(child);
      try {
        pinToCpu(child, cpu);
      } catch {
        // It has ended.
      }
    }
  }, 100);
  return () => clearInterval(timer);
}

/** With all processes that it has started. */
export const treeMemoryMb = (pid: number | undefined) =>
  [pid, ...childrenOf(pid)].reduce((sum: number, id) => sum + memoryMb(id), 0);

export const memoryMb = (pid: number | undefined) => readStatusMb(pid, 'VmRSS');

/** Peak memory since `resetPeakMemory`. */
export const peakMemoryMb = (pid: number | undefined) => readStatusMb(pid, 'VmHWM');

export function resetPeakMemory(pid: number | undefined): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/**
 * Processor time of a server, its spawn server and its supervisor, with all their threads, in steps of 10 ms. Jobs are not part of
 * it.
 */
export function cpuSeconds(pid: number | undefined): number {
  return [pid, ...childrenOf(pid)].reduce((sum: number, id) => sum + processCpuSeconds(id), 0);
}

const childrenOf = (pid: number | undefined) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ').filter(Boolean).map(Number);

/** The same, with the jobs and all other processes that the server or one of its children has started, and that have ended. */
export function treeCpuSeconds(pid: number | undefined): number {
  return [pid, ...childrenOf(pid)].reduce((sum: number, id) => sum + processCpuSeconds(id, { withChildren: true }), 0);
}

/** Zero for a process that has ended, as an ssh does that the server had started. */
function processCpuSeconds(pid: number | undefined, { withChildren = false } = {}): number {
  const stat = readProcessFile(Number(pid), 'stat');
  // User and system time, and then those of the children that have ended.
  const ticks = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, withChildren ? 15 : 13);
  return ticks.reduce((sum, tick) => sum + Number(tick), 0) / 100;
}

/** Keeps one core busy. Returns the processor time that this process got. */
export function spinCpuSeconds(seconds: number): number {
  const before = process.cpuUsage();
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function readStatusMb(pid: number | undefined, name: string): number {
  const [, kb] = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return (Number(kb) * 1024) / 1_000_000;
}

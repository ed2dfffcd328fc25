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

export const memoryMb = (pid: number | undefined) => readStatusMb(pid, 'VmRSS');

/** Peak memory since `resetPeakMemory`. */
export const peakMemoryMb = (pid: number | undefined) => readStatusMb(pid, 'VmHWM');

export function resetPeakMemory(pid: number | undefined): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Processor time of a server and its spawn server, with all their threads, in steps of 10 ms. Jobs are not part of it. */
export function cpuSeconds(pid: number | undefined): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ').filter(Boolean);
  return [String(pid), ...children].reduce((sum, id) => sum + processCpuSeconds(id), 0);
}

/** Zero for a process that has ended, as an ssh does that the server had started. */
function processCpuSeconds(pid: string): number {
  const stat = readProcessFile(pid, 'stat');
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(user) + Number(system)) / 100;
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

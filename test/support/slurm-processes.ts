import { readdirSync, readlinkSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { attempt, signalAll } from './attempt.ts';
import { readProcessFile } from './process-file.ts';
import { until } from './until.ts';

/** Finds jobs and slurmstepd processes, which outlive slurmd, by their working directory or environment. */
export function findClusterProcesses(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) return [];
    const isInside = attempt(() => readlinkSync(`/proc/${pid}/cwd`).startsWith(folder));
    return isInside || readProcessFile(pid, 'environ').includes(`${folder}/`) ? pid : [];
  });
}

/**
 * Kills everything that runs on a node, like a power failure: they are stopped first, so that none of them can react to the death
 * of another, and processes that were started meanwhile are killed too.
 */
export async function killNodeProcesses(folder: string, node: string): Promise<void> {
  let emptyScans = 0;
  await until(`nothing runs on ${node}`, () => {
    const pids = findNodeProcesses(folder, node);
    signalAll(pids, 'SIGSTOP');
    // slurmstepd last: when it ends, the kernel sends SIGHUP and SIGCONT to the stopped processes of its session.
    signalAll(pids.toReversed(), 'SIGKILL');
    // A process has no environment for a moment during exec, so that one empty scan is not enough.
    emptyScans = pids.length === 0 ? emptyScans + 1 : 0;
    return emptyScans >= 2 || undefined;
  });
}

/** Finds the processes of one node. slurmstepd processes come first: they would report the death of their jobs. */
export function findNodeProcesses(folder: string, node: string): number[] {
  const jobs = findClusterProcesses(folder).filter((pid) =>
    readProcessFile(pid, 'environ').includes(`SLURMD_NODENAME=${node}\0`),
  );
  const parents = jobs.map((pid) => Number(/^PPid:\s*(\d+)/m.exec(readProcessFile(pid, 'status'))?.[1] ?? 0));
  return [...findStepDaemons(parents), ...jobs];
}

export function findStepDaemons(pids: readonly number[]): number[] {
  return pids.filter((pid) => readProcessFile(pid, 'comm').startsWith('slurmstepd'));
}

/** Removes the cgroups of a node, which Slurm leaves behind. */
export function removeCgroups(node: string): void {
  const root = '/sys/fs/cgroup';
  for (const group of [root, ...readdirSync(root).map((name) => join(root, name))]) {
    attempt(() => rmdirSync(join(group, `slurm_${node}`)) === undefined);
  }
}

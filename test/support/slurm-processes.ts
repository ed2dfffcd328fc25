import { readdirSync, readlinkSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { attempt } from './attempt.ts';
import { readProcessFile } from './process-file.ts';

/** Finds jobs and slurmstepd processes, which outlive slurmd, by their working directory or environment. */
export function findClusterProcesses(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) return [];
    const isInside = attempt(() => readlinkSync(`/proc/${pid}/cwd`).startsWith(folder));
    return isInside || readProcessFile(pid, 'environ').includes(`${folder}/`) ? pid : [];
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

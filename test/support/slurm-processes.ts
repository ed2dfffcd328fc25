import { readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { attempt } from './attempt.ts';

/** Finds jobs and slurmstepd processes, which outlive slurmd, by their working directory or environment. */
export function findClusterProcesses(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const isInside = attempt(() => readlinkSync(`/proc/${name}/cwd`).startsWith(folder));
    const refersToIt = attempt(() => readFileSync(`/proc/${name}/environ`, 'latin1').includes(`${folder}/`));
    return isInside || refersToIt ? Number(name) : [];
  });
}

/** Finds the processes of one node. slurmstepd processes come first: they would report the death of their jobs. */
export function findNodeProcesses(folder: string, node: string): number[] {
  const jobs = findClusterProcesses(folder).filter((pid) =>
    attempt(() => readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`SLURMD_NODENAME=${node}\0`)),
  );
  const parents = jobs.map((pid) => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[1]));
  return [...findStepDaemons(parents), ...jobs];
}

export function findStepDaemons(pids: readonly number[]): number[] {
  return pids.filter((pid) => attempt(() => readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('slurmstepd')));
}

/** Removes the cgroups of a node, which Slurm leaves behind. */
export function removeCgroups(node: string): void {
  const root = '/sys/fs/cgroup';
  for (const group of [root, ...readdirSync(root).map((name) => join(root, name))]) {
    attempt(() => rmdirSync(join(group, `slurm_${node}`)) === undefined);
  }
}

import { readdirSync, readFileSync, readlinkSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { attempt } from './attempt.ts';

/** Jobs and their keepers (slurmstepd), which outlive slurmd: they work in the folder, or know of it. */
export function findClusterProcesses(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    const isInside = attempt(() => readlinkSync(`/proc/${name}/cwd`).startsWith(folder));
    const knows = attempt(() => readFileSync(`/proc/${name}/environ`, 'latin1').includes(`${folder}/`));
    return isInside || knows ? Number(name) : [];
  });
}

/** What runs on one node: Slurm tells every job where it is. The keepers first, who would report the deaths. */
export function findNodeProcesses(folder: string, node: string): number[] {
  const jobs = findClusterProcesses(folder).filter((pid) =>
    attempt(() => readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`SLURMD_NODENAME=${node}\0`)),
  );
  const parents = jobs.map((pid) => Number(readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[1]));
  const keepers = parents.filter((pid) =>
    attempt(() => readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('slurmstepd')),
  );
  return [...keepers, ...jobs];
}

/** Slurm leaves the control groups of a node behind. */
export function removeCgroups(node: string): void {
  const root = '/sys/fs/cgroup';
  for (const group of [root, ...readdirSync(root).map((name) => join(root, name))]) {
    attempt(() => rmdirSync(join(group, `slurm_${node}`)) === undefined);
  }
}

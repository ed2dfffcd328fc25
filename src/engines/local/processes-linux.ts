import { readdirSync, readFileSync } from 'node:fs';
import type { ProcessTable } from './process-table.ts';

/*
 * /proc is read synchronously, because it never waits for a disk: a scan takes about ten microseconds for each process,
 * many times less than with the thread pool.
 */

export const linuxProcesses: ProcessTable = {
  async read(pid) {
    return readStat(pid);
  },

  async scan() {
    const stats = readStats();
    const children = Map.groupBy(stats.entries(), ([, { parent }]) => parent);
    let jobIds: Map<string, number[]> | undefined;
    return {
      findJobProcesses({ jobId, leader, isSandboxed }) {
        const group = leader === null ? null : jobGroup(leader.pid, leader.mark);
        const found = new Set<number>();
        const add = (pid: number) => {
          if (found.has(pid)) return;
          found.add(pid);
          for (const [child] of children.get(pid) ?? []) add(child);
        };
        for (const [pid, stat] of stats)
          if (!stat.isZombie && group !== null && (stat.group === group || stat.session === group)) add(pid);
        // All processes in a sandbox descend from its leader. Another job could have given itself the id of this one.
        if (!isSandboxed || leader === null) {
          jobIds ??= readJobIds(stats);
          for (const pid of jobIds.get(jobId) ?? []) add(pid);
        }
        const processes = [...found].filter((pid) => stats.get(pid)?.isZombie === false);
        return { group, processes: processes.map((pid) => ({ pid, residentKib: readResidentKib(pid) })) };
      },
    };
  },
};

function readStats(): Map<number, Stat> {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return new Map(
    pids.flatMap((pid) => {
      const stat = readStat(pid);
      return stat === null ? [] : [[pid, stat] as const];
    }),
  );
}

/**
 * Returns the leader's pid, which is also the id of its group, or null if the pid has been reused: the kernel reuses a
 * pid only after the whole group has ended, and then the process with that pid has another mark.
 */
function jobGroup(pid: number, mark: string | null): number | null {
  if (mark !== null && !mark.startsWith(bootId)) return null;
  const stat = readStat(pid);
  return stat === null || stat.mark === mark ? pid : null;
}

interface Stat {
  isZombie: boolean;
  parent: number;
  group: number;
  session: number;
  mark: string;
}

function readStat(pid: number): Stat | null {
  const text = readOrEmpty(`/proc/${pid}/stat`);
  // The second field is the program name in parentheses, which may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parent, group, session] = fields;
  const startTicks = fields[19];
  if (state === undefined || startTicks === undefined) return null;
  return {
    isZombie: state === 'Z' || state === 'X',
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    mark: `${bootId}${startTicks}`,
  };
}

/** Start times are ticks since boot, so that a mark is unique only together with the boot id. */
const bootId = `${readOrEmpty('/proc/sys/kernel/random/boot_id').trim()}/`;

/**
 * Maps the ids of jobs to processes: those that left the group and the session of their job still have the environment that they
 * were started with.
 */
function readJobIds(stats: ReadonlyMap<number, Stat>): Map<string, number[]> {
  const jobIds = new Map<string, number[]>();
  for (const [pid, { isZombie }] of stats) {
    if (isZombie) continue;
    const environment = `\0${readOrEmpty(`/proc/${pid}/environ`)}`;
    for (const [, jobId = ''] of environment.matchAll(/\0BURSAR_JOB_ID=([^\0]*)(?=\0)/g))
      jobIds.set(jobId, [...(jobIds.get(jobId) ?? []), pid]);
  }
  return jobIds;
}

function readResidentKib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1] ?? 0);
}

/**
 * Returns an empty string if the process has ended, or belongs to another user. Node reads a file as UTF-8 in half of the time of
 * any other encoding. Names that are not UTF-8 do not matter here.
 */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

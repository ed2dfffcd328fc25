import { readdirSync, readFileSync } from 'node:fs';
import type { FoundProcesses, ProcessTable } from './process-table.ts';

/*
 * /proc is read synchronously, because it never waits for a disk: a scan takes about ten microseconds for each process,
 * many times less than with the thread pool.
 */

export const linuxProcesses: ProcessTable = {
  async read(pid) {
    return readStat(pid);
  },

  async findJobProcesses({ jobId, leader }) {
    const group = leader === null ? null : jobGroup(leader.pid, leader.mark);
    const found: FoundProcesses = { group, processes: [] };
    for (const name of readdirSync('/proc')) {
      const pid = Number(name);
      if (!Number.isInteger(pid)) continue;
      const stat = readStat(pid);
      if (stat === null || stat.isZombie) continue;
      const isMember = group !== null && (stat.group === group || stat.session === group);
      if (isMember || hasJobId(pid, jobId)) found.processes.push({ pid, residentKib: readResidentKib(pid) });
    }
    return found;
  },
};

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
  group: number;
  session: number;
  mark: string;
}

function readStat(pid: number): Stat | null {
  const text = readOrEmpty(`/proc/${pid}/stat`);
  // The second field is the program name in parentheses, which may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, , group, session] = fields;
  const startTicks = fields[19];
  if (state === undefined || startTicks === undefined) return null;
  return {
    isZombie: state === 'Z' || state === 'X',
    group: Number(group),
    session: Number(session),
    mark: `${bootId}${startTicks}`,
  };
}

/** Start times are ticks since boot, so that a mark is unique only together with the boot id. */
const bootId = `${readOrEmpty('/proc/sys/kernel/random/boot_id').trim()}/`;

/** Processes that left the group and the session still have the environment that they were started with. */
function hasJobId(pid: number, jobId: string): boolean {
  return `\0${readOrEmpty(`/proc/${pid}/environ`)}`.includes(`\0BURSAR_JOB_ID=${jobId}\0`);
}

function readResidentKib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1] ?? 0);
}

/** Returns an empty string if the process has ended, or belongs to another user. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

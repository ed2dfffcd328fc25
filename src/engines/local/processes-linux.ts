import { readdirSync, readFileSync } from 'node:fs';
import type { FoundProcesses, ProcessTable } from './process-table.ts';

/*
 * Reading /proc waits for no disk, so it is done synchronously: a scan takes some ten microseconds a process,
 * many times less than through the thread pool.
 */

export const linuxProcesses: ProcessTable = {
  async look(pid) {
    return readStat(pid);
  },

  async find({ jobId, leader }) {
    const group = leader === null ? null : ownGroup(leader.pid, leader.mark);
    const found: FoundProcesses = { group, processes: [] };
    for (const name of readdirSync('/proc')) {
      const pid = Number(name);
      if (!Number.isInteger(pid)) continue;
      const stat = readStat(pid);
      if (stat === null || stat.ended) continue;
      const isMember = group !== null && (stat.group === group || stat.session === group);
      if (isMember || carries(pid, jobId)) found.processes.push({ pid, residentKb: readResidentKb(pid) });
    }
    return found;
  },
};

/**
 * The leader's number as that of its group, unless it names other processes by now: the number is free again
 * only when the whole group is gone, and then a process of that number is not the leader.
 */
function ownGroup(pid: number, mark: string | null): number | null {
  if (mark !== null && !mark.startsWith(bootId)) return null;
  const stat = readStat(pid);
  return stat === null || stat.mark === mark ? pid : null;
}

interface Stat {
  ended: boolean;
  group: number;
  session: number;
  mark: string;
}

function readStat(pid: number): Stat | null {
  const text = readOrEmpty(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses, which may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, , group, session] = fields;
  const startTicks = fields[19];
  if (state === undefined || startTicks === undefined) return null;
  return {
    ended: state === 'Z' || state === 'X',
    group: Number(group),
    session: Number(session),
    mark: `${bootId}${startTicks}`,
  };
}

/** Ticks count from the start of the machine, and start again with it. */
const bootId = `${readOrEmpty('/proc/sys/kernel/random/boot_id').trim()}/`;

/** Strays that have left the group and the session still have the environment they were started with. */
function carries(pid: number, jobId: string): boolean {
  return `\0${readOrEmpty(`/proc/${pid}/environ`)}`.includes(`\0BURSAR_JOB_ID=${jobId}\0`);
}

function readResidentKb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readOrEmpty(`/proc/${pid}/status`))?.[1] ?? 0);
}

/** Empty when the process has ended meanwhile, or is somebody else's. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

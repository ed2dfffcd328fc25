import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ProcessTable } from './process-table.ts';

const run = promisify(execFile);

/** For systems without /proc, such as macOS. Finds the job's process group, but not strays that have left it. */
export const psProcesses: ProcessTable = {
  async look(pid) {
    return (await ps('-p', String(pid))).find((row) => row.pid === pid) ?? null;
  },

  async find({ leader }) {
    if (leader === null) return { group: null, processes: [] };
    const rows = await ps('-A');
    const leading = rows.find((row) => row.pid === leader.pid);
    // The number is free again only when the whole group is gone, and then its process is not the leader.
    if (leading !== undefined && leading.mark !== leader.mark) return { group: null, processes: [] };
    return { group: leader.pid, processes: rows.filter((row) => row.group === leader.pid && !row.ended) };
  },
};

interface Row {
  pid: number;
  group: number;
  residentKb: number;
  ended: boolean;
  /** When it started, to the second. */
  mark: string;
}

async function ps(...selection: string[]): Promise<Row[]> {
  const args = [...selection, '-o', 'pid=,pgid=,rss=,stat=,lstart='];
  // The time is told in the language and time zone of whoever asks: a mark must not depend on that.
  const env = { PATH: '/bin:/usr/bin', LC_ALL: 'C', TZ: 'UTC' };
  const { stdout } = await run('ps', args, { env, timeout: 10_000, maxBuffer: 64 << 20 }).catch((error) => {
    // `ps` ends with 1 when it has found nothing.
    if (error.code === 1) return { stdout: '' };
    throw error;
  });
  return stdout.split('\n').flatMap((line) => {
    const [, pid, group, residentKb, stat, mark] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*?)\s*$/.exec(line) ?? [];
    if (stat === undefined || mark === undefined) return [];
    return {
      pid: Number(pid),
      group: Number(group),
      residentKb: Number(residentKb),
      ended: stat.startsWith('Z'),
      mark,
    };
  });
}

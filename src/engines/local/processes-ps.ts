import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { ProcessTable } from './process-table.ts';

const execFileAsync = promisify(execFile);

/** For systems without /proc, such as macOS. Finds the job's process group, but not processes that have left it. */
export const psProcesses: ProcessTable = {
  async read(pid) {
    return (await ps('-p', String(pid))).find((row) => row.pid === pid) ?? null;
  },

  async scan() {
    const rows = await ps('-A');
    return {
      findJobProcesses({ leader }) {
        if (leader === null) return { group: null, processes: [] };
        const leaderRow = rows.find((row) => row.pid === leader.pid);
        // The pid is reused only after the whole group has ended; then the process has another mark.
        if (leaderRow !== undefined && leaderRow.mark !== leader.mark) return { group: null, processes: [] };
        return { group: leader.pid, processes: rows.filter((row) => row.group === leader.pid && !row.isZombie) };
      },
    };
  },
};

interface Row {
  pid: number;
  group: number;
  residentKib: number;
  isZombie: boolean;
  /** The start time, to the second. */
  mark: string;
}

async function ps(...selection: string[]): Promise<Row[]> {
  const args = [...selection, '-o', 'pid=,pgid=,rss=,stat=,lstart='];
  // A mark must not depend on the caller's language and time zone.
  const env = { PATH: '/bin:/usr/bin', LC_ALL: 'C', TZ: 'UTC' };
  const { stdout } = await execFileAsync('ps', args, { env, timeout: 10_000, maxBuffer: 64 << 20 }).catch((error) => {
    // `ps` exits with 1 if it found no process.
    if (error.code === 1) return { stdout: '' };
    throw error;
  });
  return stdout.split('\n').flatMap((line) => {
    const [, pid, group, residentKib, stat, mark] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*?)\s*$/.exec(line) ?? [];
    if (stat === undefined || mark === undefined) return [];
    return {
      pid: Number(pid),
      group: Number(group),
      residentKib: Number(residentKib),
      isZombie: stat.startsWith('Z'),
      mark,
    };
  });
}

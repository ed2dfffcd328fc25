import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { readProcessFile } from './process-file.ts';

export interface ListedProcess {
  pid: number;
  parent: number;
  /** As `ps` shows it: Z is a zombie. */
  state: string;
  /** With its arguments. */
  command: string;
}

/** Lists all processes. Small images of Linux lack `ps`, and other systems lack /proc. */
export function listProcesses(): ListedProcess[] {
  if (!existsSync('/proc/self/stat')) return listWithPs();
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    // The name in parentheses can contain anything.
    const [, state, parent] = /.*\) (\S) (\d+) /s.exec(readProcessFile(pid, 'stat')) ?? [];
    if (state === undefined) return [];
    const command = readProcessFile(pid, 'cmdline').replaceAll('\0', ' ').trim();
    return { pid: Number(pid), parent: Number(parent), state, command };
  });
}

function listWithPs(): ListedProcess[] {
  const rows = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' }).split('\n');
  return rows.flatMap((row) => {
    const [, pid, parent, state = '', command = ''] = /^\s*(\d+)\s+(\d+)\s+(\S)\S*\s+(.*)$/.exec(row) ?? [];
    return pid === undefined ? [] : { pid: Number(pid), parent: Number(parent), state, command };
  });
}

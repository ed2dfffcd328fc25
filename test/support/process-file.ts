import { readFileSync } from 'node:fs';

/** Reads a file of /proc/PID. Returns an empty string if the process has ended: any but the own one can at any time. */
export function readProcessFile(pid: number | string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

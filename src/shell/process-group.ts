import type { ChildProcessByStdio, SpawnOptions } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

export type SpawnedProcess = ChildProcessByStdio<Writable | null, Readable, Readable>;

/** Commands run in `/`, as leaders of their process groups. */
export const spawnOptions = (environment: Record<string, string>, hasStdin: boolean): SpawnOptions => ({
  cwd: '/',
  env: environment,
  detached: true,
  stdio: [hasStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
});

/** Kills a process with its whole group. Closes its output even if another process still holds it open. */
export function killGroup({ pid, stdin, stdout, stderr }: SpawnedProcess): void {
  killGroupById(pid);
  stdin?.destroy();
  stdout.destroy();
  stderr.destroy();
}

export function killGroupById(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // The whole group has already ended.
  }
}

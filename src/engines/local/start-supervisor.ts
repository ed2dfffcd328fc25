import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JobLimits } from './ending.ts';
import { supervisorEnvironment } from './environment.ts';

export interface SupervisorOptions {
  folder: string;
  cacheFolder: string;
  limits: JobLimits;
  /** Called when this supervisor has claimed the job. */
  onClaim(): void;
  /** Called once, when this supervisor has ended, or when it could not be started. */
  onGone(failure: string | null): void;
}

/**
 * Starts a supervisor for a job. It is a session of its own and needs nothing of this process, which it outlives;
 * nor does it keep this process alive.
 */
export function startSupervisor({ folder, cacheFolder, limits, onClaim, onGone }: SupervisorOptions): void {
  // Beside this file, and built like it.
  const script = fileURLToPath(new URL(`./supervisor${extname(import.meta.url)}`, import.meta.url));
  const args = ['--disable-warning=ExperimentalWarning', script, folder, JSON.stringify(limits)];
  const env = supervisorEnvironment(cacheFolder);
  try {
    const log = openSync(join(folder, 'supervisor.log'), 'a', 0o600);
    try {
      const child = spawn(process.execPath, args, {
        cwd: '/',
        env,
        detached: true,
        stdio: ['ignore', log, log, 'ipc'],
      });
      child.once('message', onClaim);
      child.once('error', (error) => onGone(error.message));
      child.once('exit', (code, signal) => onGone(code === 0 ? null : `its supervisor ended with ${code ?? signal}`));
      child.unref();
      child.channel?.unref();
    } finally {
      closeSync(log);
    }
  } catch (error) {
    onGone(error instanceof Error ? error.message : String(error));
  }
}

import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { supervisorEnvironment } from './environment.ts';
import { supervisorLogPath } from './records.ts';
import type { RunSettings } from './run-job.ts';

export interface SupervisorOptions {
  folder: string;
  compileCacheFolder: string;
  settings: RunSettings;
  onClaim(): void;
  /** Called once, when the supervisor has ended or could not be started. */
  onExit(failure: string | null): void;
}

/** Every check of the limits leaves garbage. With space for only 1 MB of it, V8 collects it early, which saves memory. */
const nodeOptions = ['--max-semi-space-size=1', '--disable-warning=ExperimentalWarning'];

/**
 * Starts a supervisor for a job, in a new session. The supervisor may outlive this process, and does not keep this
 * process alive.
 */
export function startSupervisor({ folder, compileCacheFolder, settings, onClaim, onExit }: SupervisorOptions): void {
  // The script is in the folder of this file and has the same extension, also in the build.
  const script = fileURLToPath(new URL(`./supervisor${extname(import.meta.url)}`, import.meta.url));
  const args = [...nodeOptions, script, folder, JSON.stringify(settings)];
  const env = supervisorEnvironment(compileCacheFolder);
  try {
    const log = openSync(supervisorLogPath(folder), 'a', 0o600);
    try {
      const child = spawn(process.execPath, args, {
        cwd: '/',
        env,
        detached: true,
        stdio: ['ignore', log, log, 'ipc'],
      });
      child.once('message', onClaim);
      child.once('error', (error) => onExit(error.message));
      child.once('exit', (code, signal) => onExit(code === 0 ? null : `its supervisor ended with ${code ?? signal}`));
      child.unref();
      child.channel?.unref();
    } finally {
      closeSync(log);
    }
  } catch (error) {
    onExit(error instanceof Error ? error.message : String(error));
  }
}

import { closeSync, openSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { StartDetached } from '../../shell/process.ts';
import { supervisorEnvironment } from './environment.ts';
import { supervisorLogPath } from './records.ts';
import type { RunSettings } from './run-job.ts';

export interface SupervisorOptions {
  folder: string;
  compileCacheFolder: string;
  settings: RunSettings;
  startDetached: StartDetached;
  onClaim(): void;
  /** Called once, when the supervisor has ended or could not be started, or when nothing more will be known of it. */
  onExit(failure: string | null): void;
}

/** Every check of the limits leaves garbage. With space for only 1 MB of it, V8 collects it early, which saves memory. */
const nodeOptions = ['--max-semi-space-size=1', '--disable-warning=ExperimentalWarning'];

/** Starts a supervisor for a job, as a process that may outlive this one. */
export function startSupervisor(options: SupervisorOptions): void {
  const { folder, compileCacheFolder, settings, startDetached, onClaim, onExit } = options;
  // The script is in the folder of this file and has the same extension, also in the build.
  const script = fileURLToPath(new URL(`./supervisor${extname(import.meta.url)}`, import.meta.url));
  const logFile = supervisorLogPath(folder);
  try {
    // It shows a later process that a supervisor may have been started.
    closeSync(openSync(logFile, 'a', 0o600));
    startDetached({
      argv: [process.execPath, ...nodeOptions, script, folder, JSON.stringify(settings)],
      environment: supervisorEnvironment(compileCacheFolder),
      logFile,
      onMessage: onClaim,
      onExit: (failure) => onExit(failure && `its supervisor: ${failure}`),
    });
  } catch (error) {
    onExit(error instanceof Error ? error.message : String(error));
  }
}

import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { supervisorEnvironment } from '../environment.ts';
import type { RunSettings } from './run-job.ts';

/** The message to a supervisor: run the job of this record folder. */
export interface RunMessage {
  folder: string;
  settings: RunSettings;
}

/**
 * The reports of a supervisor. `exited`: no process of the job is left, and its end will be recorded. `ended` is the last one of a
 * job, which may not have run: another supervisor had claimed it.
 */
export type SupervisorReport =
  | { kind: 'claimed' | 'exited'; folder: string }
  | { kind: 'ended'; folder: string; failure: string | null };

export interface SupervisedJob extends RunMessage {
  onClaim(): void;
  /** Called when no process of the job is left. Its end is not recorded yet. */
  onExit(): void;
  /** Called once, when the job has ended or could not be started, or when nothing more will be known of it. */
  onEnd(failure: string | null): void;
}

/**
 * Runs jobs in the supervisor, a process that outlives this one. It is started with the first job, and let go when it has had
 * no job for a while, or does not respond: it then ends with its last job, and the next job gets a new one. Any number of
 * supervisors can be told to run a job: only the one that claims it does.
 */
export interface SupervisorClient {
  /** Throws if no supervisor can be started. */
  run(job: SupervisedJob): void;
}

export interface SupervisorClientOptions {
  /** The file to which supervisors write their errors. */
  logFile: string;
  /** A supervisor that takes longer to claim a job does not respond. */
  maxClaimMs?: number;
  /** A supervisor takes 50 MB of memory. */
  maxIdleMs?: number;
}

export function createSupervisorClient(options: SupervisorClientOptions): SupervisorClient {
  const { logFile, maxClaimMs = 60_000, maxIdleMs = 10_000 } = options;
  let current: Supervisor | undefined;
  return {
    run(job) {
      if (current?.isConnected() !== true) current = startSupervisor(logFile, maxClaimMs, maxIdleMs);
      current.run(job);
    },
  };
}

interface Supervisor extends SupervisorClient {
  isConnected(): boolean;
}

interface OpenJob extends SupervisedJob {
  claimTimer: NodeJS.Timeout;
}

function startSupervisor(logFile: string, maxClaimMs: number, maxIdleMs: number): Supervisor {
  const child = spawnSupervisor(logFile);
  const jobs = new Map<string, OpenJob>();
  let idleTimer: NodeJS.Timeout | undefined;

  function close(folder: string, failure: string | null): void {
    const job = jobs.get(folder);
    if (job === undefined) return;
    clearTimeout(job.claimTimer);
    jobs.delete(folder);
    if (jobs.size === 0) idleTimer = setTimeout(() => letGo('it had no job'), maxIdleMs).unref();
    job.onEnd(failure);
  }

  /** Its jobs continue. */
  function letGo(problem: string): void {
    if (child.connected) child.disconnect();
    for (const folder of [...jobs.keys()]) close(folder, `its supervisor: ${problem}`);
    clearTimeout(idleTimer);
  }

  child.on('message', (report: SupervisorReport) => {
    const job = jobs.get(report.folder);
    if (report.kind === 'ended') close(report.folder, report.failure);
    else if (report.kind === 'exited') job?.onExit();
    else if (job !== undefined) {
      clearTimeout(job.claimTimer);
      job.onClaim();
    }
  });
  child.on('error', (error) => letGo(error.message));
  child.on('exit', (code, signal) => letGo(`it ended with ${code ?? signal}`));
  child.on('disconnect', () => letGo('it has closed its channel'));

  return {
    isConnected: () => child.connected,
    run(job) {
      const claimTimer = setTimeout(() => letGo('it does not respond'), maxClaimMs).unref();
      jobs.set(job.folder, { ...job, claimTimer });
      clearTimeout(idleTimer);
      // A job that is not isolated can have stopped it.
      child.kill('SIGCONT');
      const { folder, settings } = job;
      const message: RunMessage = { folder, settings };
      // Without a channel it could not be started, or has just ended: an event that says so follows.
      if (child.connected) child.send(message, (error) => error && letGo(error.message));
    },
  };
}

/** Every check of the limits leaves garbage. With little space for it V8 collects it early, which saves memory. */
const nodeOptions = ['--max-semi-space-size=1', '--disable-warning=ExperimentalWarning'];

function spawnSupervisor(logFile: string): ChildProcess {
  // The script is in the folder of this file and has the same extension, also in the build.
  const script = fileURLToPath(new URL(`./supervisor${extname(import.meta.url)}`, import.meta.url));
  const log = openSync(logFile, 'a', 0o600);
  try {
    const child = spawn(process.execPath, [...nodeOptions, script], {
      cwd: '/',
      env: supervisorEnvironment(),
      // A session of its own: it does not get the signals of a terminal.
      detached: true,
      stdio: ['ignore', log, log, 'ipc'],
    });
    child.unref();
    child.channel?.unref();
    return child;
  } finally {
    closeSync(log);
  }
}

import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { constants } from 'node:os';
import type { Program } from '../../../simulation/nodes.ts';
import { type EngineJob, startDirectoryOf } from '../../../src/engines/engine.ts';
import { resolveCommand } from '../../../src/engines/local/command.ts';

/** Runs a job of the simulated scheduler as a process, without the supervisor that the local engine needs. */
export function startProcess(job: EngineJob): Program {
  const { promise, resolve } = Promise.withResolvers<number>();
  let pid: number | undefined;
  let isStopped = false;
  const stop = () => {
    isStopped = true;
    if (pid !== undefined) killGroup(pid);
  };
  void start();
  return { ended: promise, stop };

  async function start(): Promise<void> {
    const directory = startDirectoryOf(job);
    const path = process.env.PATH ?? '/usr/bin:/bin';
    const command = await resolveCommand(job.command, { directory, path, canSee: async () => true });
    if (isStopped) return resolve(128 + constants.signals.SIGKILL);
    if ('rejected' in command) return resolve(127);
    const [stdout, stderr] = [job.workspace.stdout, job.workspace.stderr].map((file) => openSync(file, 'a', 0o600));
    const env = { PATH: path, HOME: directory, LANG: 'C.UTF-8', BURSAR_JOB_ID: job.jobId };
    const child = spawn(command.program, command.args, {
      cwd: directory,
      env,
      detached: true,
      stdio: ['ignore', stdout, stderr],
    });
    for (const file of [stdout, stderr]) if (file !== undefined) closeSync(file);
    pid = child.pid;
    child.once('error', () => resolve(126));
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
    if (isStopped) stop();
  }
}

/** Ends the process and everything that it has started. */
function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

import { constants } from 'node:os';
import type { Program } from '../../../simulation/nodes.ts';
import { type EngineJob, startDirectoryOf } from '../../../src/engines/engine.ts';
import { resolveCommand } from '../../../src/engines/local/supervisor/command.ts';
import type { RunningProcess } from '../../../src/shell/process.ts';
import { createSpawnClient } from '../../../src/shell/spawn-client.ts';

/** A process of tests has several hundred megabytes: its own forks would take up to a tenth of its CPU time. */
const startByServer = createSpawnClient();

/** Runs a program in a folder, with its output in two files. The shell stays, because its exit code tells a signal. */
const script = 'cd "$1"; stdout=$2 stderr=$3; shift 3; "$@" >>"$stdout" 2>>"$stderr"';
const killedCode = 128 + constants.signals.SIGKILL;

/** Runs a job of the simulated scheduler as a process, without the supervisor that the local engine needs. */
export function startProcess(job: EngineJob): Program {
  let child: RunningProcess | undefined;
  let isStopped = false;
  return {
    ended: run(),
    stop() {
      isStopped = true;
      child?.kill();
    },
  };

  async function run(): Promise<number> {
    const directory = startDirectoryOf(job);
    const path = process.env.PATH ?? '/usr/bin:/bin';
    const command = await resolveCommand(job.command, { directory, path, canSee: async () => true });
    if ('rejected' in command) return 127;
    if (isStopped) return killedCode;
    const { stdout, stderr } = job.workspace;
    const environment = { PATH: path, HOME: directory, LANG: 'C.UTF-8', BURSAR_JOB_ID: job.jobId };
    const argv = ['/bin/sh', '-c', script, 'sh', directory, stdout, stderr, command.program, ...command.args];
    child = await startByServer(argv, { label: job.jobId, environment }, undefined);
    // Nothing comes out of them, but their end is awaited.
    for (const output of [child.stdout, child.stderr]) output.resume();
    if (isStopped) child.kill();
    return (await child.closed) ?? killedCode;
  }
}

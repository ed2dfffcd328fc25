import { mkdir, rmdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../../domain/errors.ts';
import type { JobEnd } from '../../../domain/jobs/job.ts';
import { bytesPerKb } from '../../../domain/units.ts';
import { removeTree } from '../../../files/workspaces/remove-tree.ts';
import { type EngineJob, startDirectoryOf } from '../../engine.ts';
import type { Account } from '../../sandbox/arguments.ts';
import { retryWhileDiskRefuses } from '../durable-files.ts';
import { jobEnvironment, scratchFolder } from '../environment.ts';
import {
  buildEndWithoutStart,
  type EndCause,
  hasGracePeriod,
  type JobLimits,
  type SandboxNotStarted,
  toRunOutcome,
} from '../job-end.ts';
import type { JobProcessSelector, ProcessId } from '../process-table.ts';
import { identifyProcess, killJob, terminateJob } from '../processes.ts';
import { createJobSandbox, type LocalSandbox, type PrivateFiles, readSandboxProblem } from '../sandbox.ts';
import { resolveCommand } from './command.ts';
import { type Output, openOutputs, type PipeStock } from './output.ts';
import { type StartedProgram, startProgram, startSandbox, toStartFailure } from './start-program.ts';
import type { LimitWatcher } from './watch-limits.ts';
import { giveWorkspace } from './workspace-owner.ts';

/** How the jobs of a system are run. It is passed to the supervisor as JSON. */
export interface RunSettings {
  limits: JobLimits;
  /** Undefined: the job is not isolated. */
  sandbox?: LocalSandbox;
  /** Undefined: the account of the supervisor. */
  account?: Account;
}

type StopRequest = Extract<EndCause, { kind: 'stop_requested' }>;

export interface JobRun extends RunSettings {
  job: EngineJob;
  /** A folder in which named pipes can be created. */
  folder: string;
  startedAt: number;
  /** Returns why the job must end: its owner, or somebody who stops the supervisor, wants that. */
  findStopRequest(): StopRequest | null;
  /** Whether the engine has ended the job, because the supervisor did not respond for long. */
  isEnded(): boolean;
  onStarted(leader: ProcessId): void;
  /** Called when no process of the job is left. */
  onExit(): void;
  /** These are shared by all jobs. */
  limitWatcher: LimitWatcher;
  privateFiles: PrivateFiles;
  pipes: PipeStock;
}

/**
 * Runs a job to its end. Afterwards no process of the job is left, its output is durable, and its folder for temporary
 * files is removed, even if this throws because the machine has no memory or disk space left.
 */
export async function runJob(run: JobRun): Promise<JobEnd> {
  try {
    for (let attempt = 1; ; attempt++) {
      const end = await attemptJob(run, attempt);
      if (!('sandboxProblem' in end)) return end;
      if (attempt === maxSandboxes || run.findStopRequest() !== null) {
        const reason = `its sandbox could not be set up: ${end.sandboxProblem}`;
        return buildEndWithoutStart('node_failed', reason, Date.now());
      }
      await sleep(sandboxRetryMs);
    }
  } finally {
    const scratch = scratchFolder(run.job);
    // Mostly it is empty.
    await rmdir(scratch).catch(() => removeTree(scratch).catch(() => {}));
  }
}

/**
 * A file that is to be hidden may vanish before bubblewrap hides it, and a limit of the kernel may be reached for a moment. The
 * next sandbox hides what exists then. While accounts or packages of the host are changed, files in /etc come and go for seconds.
 */
const maxSandboxes = 10;
const sandboxRetryMs = 200;

/** The reason why bubblewrap did not set up a sandbox. Nothing of the job has run. */
interface SandboxFailure {
  sandboxProblem: string;
}

async function attemptJob(run: JobRun, attempt: number): Promise<JobEnd | SandboxFailure> {
  const { job, limits, account, privateFiles } = run;
  const env = jobEnvironment(job, account?.name);
  const directory = startDirectoryOf(job);
  const sandbox =
    run.sandbox &&
    createJobSandbox(run.sandbox, job, limits, account, privateFiles.find(account, { mustBeNew: attempt > 1 }));
  const canSee = sandbox?.canSee ?? (async () => true);
  const invocation = await resolveCommand(job.command, { directory, path: env.PATH, canSee });
  if ('rejected' in invocation) return buildEndWithoutStart('rejected', invocation.rejected, Date.now());

  const causes = createCauses();
  const prepare = async () => {
    await mkdir(env.TMPDIR, { recursive: true });
    if (account !== undefined) await giveWorkspace(job.workspace.directory, env.TMPDIR, account);
    return await openJobOutputs(run, causes);
  };
  // There was space before the claim. If it is gone, the job waits. There are no outputs if it was cancelled meanwhile.
  const outputs = (await retryWhileDiskRefuses(prepare, maxPreparations, () => run.findStopRequest() !== null)) ?? [];
  try {
    const stopRequest = run.findStopRequest();
    if (stopRequest !== null) {
      const { outcome, reason } = toRunOutcome(stopRequest, job, limits);
      return buildEndWithoutStart(outcome, reason, Date.now());
    }
    // This end is not recorded: the first one is.
    if (run.isEnded()) return buildEndWithoutStart('lost', 'it was ended before it started', Date.now());
    const program = await (sandbox === undefined
      ? startProgram(invocation, { cwd: directory, env, ...account }, outputs, causes.add)
      : startSandbox(sandbox.wrap(invocation), env, outputs, causes.add));
    if (program instanceof Error) return toStartFailure(program, invocation.program, run.sandbox?.program);
    return await waitForEnd(run, program, outputs, causes);
  } finally {
    await finishAll(outputs, 0);
  }
}

/** In seconds, about: the time limit of the job counts from the claim, so that it cannot wait for long after it. */
const maxPreparations = 10;

type Cause = EndCause | SandboxNotStarted;

interface Causes {
  add(cause: Cause): void;
  first: Promise<Cause>;
  all: Cause[];
}

function createCauses(): Causes {
  const { promise: first, resolve } = Promise.withResolvers<Cause>();
  const all: Cause[] = [];
  const add = (cause: Cause) => {
    all.push(cause);
    resolve(cause);
  };
  return { add, first, all };
}

function openJobOutputs({ job, folder, account, limits, pipes }: JobRun, causes: Causes): Promise<Output[]> {
  return openOutputs(
    (['stdout', 'stderr'] as const).map((stream) => ({
      file: job.workspace[stream],
      takePipe: () => pipes.take(folder),
      writer: account,
      maxBytes: limits.outputKb * bytesPerKb,
      onExceeded: () => causes.add({ kind: 'output_exceeded', stream }),
      onFailure: (error) =>
        causes.add({ kind: 'node_error', reason: `its ${stream} could not be stored (${errnoCode(error)})` }),
    })),
  );
}

/** The maximum wait for the rest of the output after all known processes of the job have ended. */
const outputTimeoutMs = 2_000;

async function waitForEnd(
  run: JobRun,
  program: StartedProgram,
  outputs: Output[],
  causes: Causes,
): Promise<JobEnd | SandboxFailure> {
  const { job, limits } = run;
  const startedAtMs = performance.now();
  for (const output of outputs) output.startReading();
  const leader = await identifyProcess(program.pid).catch(() => null);
  const processes: JobProcessSelector = { jobId: job.jobId, leader, isSandboxed: run.sandbox !== undefined };
  if (leader !== null) run.onStarted(leader);

  const stopWatching = run.limitWatcher.watch({
    deadlineMs: startedAtMs + job.runtimeSeconds * 1000,
    memoryMb: limits.memoryMb,
    processes,
    findStopRequest: run.findStopRequest,
    onCause: causes.add,
  });
  const cause = await causes.first;
  stopWatching();

  if (cause.kind !== 'not_started' && hasGracePeriod(cause))
    await terminateJob(processes, limits.killGraceSeconds * 1000);
  if (cause.kind !== 'exited' || !(await program.isSandboxGone())) await killJob(processes);
  const elapsedMs = performance.now() - startedAtMs;
  const endedAt = Math.max(run.startedAt, Date.now());
  // Otherwise it is started again, in another sandbox.
  if (cause.kind !== 'not_started') run.onExit();
  // A job that ended by itself has its complete output, as soon as the disk takes it.
  await finishAll(outputs, outputTimeoutMs, cause.kind === 'exited' ? () => run.findStopRequest() !== null : abandoned);

  if (cause.kind === 'not_started') {
    const problem = await readSandboxProblem(job.workspace.stderr);
    if (!problem.startsWith('execvp ')) return { sandboxProblem: problem };
    const reason = `its program could not be started: ${problem.slice('execvp '.length)}`;
    return buildEndWithoutStart('rejected', reason, Date.now());
  }
  return {
    ...toRunOutcome(decisiveCause(cause, causes.all), job, limits),
    startedAt: run.startedAt,
    endedAt,
    elapsedSeconds: Math.max(1, Math.round(elapsedMs / 1000)),
  };
}

/** Excess output may be detected only after the exit, but was written before it, and therefore takes precedence. */
function decisiveCause(cause: EndCause, all: Cause[]): EndCause {
  if (cause.kind !== 'exited') return cause;
  return all.find((other) => other.kind === 'output_exceeded' || other.kind === 'node_error') ?? cause;
}

const abandoned = () => true;

async function finishAll(outputs: Output[], timeoutMs: number, isAbandoned = abandoned): Promise<void> {
  await Promise.all(outputs.map((output) => output.finish(timeoutMs, isAbandoned)));
}

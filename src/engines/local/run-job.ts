import type { ChildProcess } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { bytesPerKb } from '../../domain/units.ts';
import { removeTree } from '../../files/workspaces/remove-tree.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import type { Account } from '../sandbox/arguments.ts';
import { resolveCommand } from './command.ts';
import { retryWhileDiskRefuses } from './disk-retry.ts';
import { jobEnvironment, scratchFolder } from './environment.ts';
import {
  buildEndWithoutStart,
  type EndCause,
  hasGracePeriod,
  type JobLimits,
  type SandboxNotStarted,
  toRunOutcome,
} from './job-end.ts';
import { type Output, openOutputs } from './output.ts';
import type { JobProcessSelector, ProcessId } from './process-table.ts';
import { identifyProcess, killJob, readResidentKib, terminateJob } from './processes.ts';
import { createJobSandbox, type LocalSandbox, readSandboxProblem } from './sandbox.ts';
import { startProgram, startSandbox, toStartFailure } from './start-program.ts';
import { watchLimits } from './watch-limits.ts';
import { giveWorkspace } from './workspace-owner.ts';

/** How a supervisor runs its job. It is passed to the supervisor as JSON. */
export interface RunSettings {
  limits: JobLimits;
  /** Undefined: the job is not isolated. */
  sandbox?: LocalSandbox;
  /** Undefined: the account of the supervisor. */
  account?: Account;
}

export interface JobRun extends RunSettings {
  job: EngineJob;
  /** The folder for the named pipes. */
  folder: string;
  startedAt: number;
  /** Aborted when the supervisor receives a signal to stop. */
  stop: AbortSignal;
  isCancellationRequested(): Promise<boolean>;
  onStarted(leader: ProcessId): Promise<void>;
}

/**
 * Runs a job to its end. Afterwards no process of the job is left, its output is durable, and its folder for temporary
 * files is removed, even if this throws because the machine has no memory or disk space left.
 */
export async function runJob(run: JobRun): Promise<JobEnd> {
  try {
    for (let attempt = 1; ; attempt++) {
      const end = await attemptJob(run);
      if (!('sandboxProblem' in end)) return end;
      if (attempt === maxSandboxes || (await isStopRequested(run))) {
        const reason = `its sandbox could not be set up: ${end.sandboxProblem}`;
        return buildEndWithoutStart('node_failed', reason, Date.now());
      }
      await sleep(sandboxRetryMs);
    }
  } finally {
    await removeTree(scratchFolder(run.job)).catch(() => {});
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

async function attemptJob(run: JobRun): Promise<JobEnd | SandboxFailure> {
  const { job, limits, account } = run;
  const directory = startDirectoryOf(job);
  const env = jobEnvironment(job, account?.name);
  const sandbox = run.sandbox && createJobSandbox(run.sandbox, job, limits, account);
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
  const outputs = (await retryWhileDiskRefuses(prepare, maxPreparations, () => isStopRequested(run))) ?? [];
  try {
    const byOwner = await run.isCancellationRequested();
    if (byOwner || run.stop.aborted) {
      const { outcome, reason } = toRunOutcome({ kind: 'stop_requested', byOwner }, run.job, run.limits);
      return buildEndWithoutStart(outcome, reason, Date.now());
    }
    const child = await (sandbox === undefined
      ? startProgram(invocation, { cwd: directory, env, ...account }, outputs, causes.add)
      : startSandbox(sandbox.wrap(invocation), env, outputs, causes.add));
    if (child instanceof Error) return toStartFailure(child, invocation.program, run.sandbox?.program);
    return await waitForEnd(run, child, outputs, causes);
  } finally {
    await finishAll(outputs, 0);
  }
}

/** In seconds, about: the time limit of the job counts from the claim, so that it cannot wait for long after it. */
const maxPreparations = 10;

async function isStopRequested({ stop, isCancellationRequested }: JobRun): Promise<boolean> {
  return stop.aborted || (await isCancellationRequested());
}

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

function openJobOutputs({ job, folder, account, limits }: JobRun, causes: Causes): Promise<Output[]> {
  return openOutputs(
    (['stdout', 'stderr'] as const).map((stream) => ({
      file: job.workspace[stream],
      pipe: join(folder, `${stream}.pipe`),
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
  child: ChildProcess,
  outputs: Output[],
  causes: Causes,
): Promise<JobEnd | SandboxFailure> {
  const { job, limits } = run;
  const monotonicStartMs = performance.now();
  for (const output of outputs) output.startReading();
  const leader = child.pid === undefined ? null : await identifyProcess(child.pid).catch(() => null);
  const selector: JobProcessSelector = { jobId: job.jobId, leader, isSandboxed: run.sandbox !== undefined };
  // Ignore a failure: on Linux, a job whose supervisor dies is also found by its environment.
  if (leader !== null) run.onStarted(leader).catch(() => {});

  const ended = new AbortController();
  onAbort(run.stop, async () => causes.add({ kind: 'stop_requested', byOwner: await run.isCancellationRequested() }));
  const watching = watchLimits({
    runtimeSeconds: job.runtimeSeconds,
    memoryMb: limits.memoryMb,
    readResidentKib: () => readResidentKib(selector),
    isCancellationRequested: run.isCancellationRequested,
    onCause: causes.add,
    signal: ended.signal,
  });
  const cause = await causes.first;
  ended.abort();
  await watching;

  if (cause.kind !== 'not_started' && hasGracePeriod(cause))
    await terminateJob(selector, limits.killGraceSeconds * 1000);
  await killJob(selector);
  const elapsedMs = performance.now() - monotonicStartMs;
  // A job that ended by itself has its complete output, as soon as the disk takes it.
  await finishAll(outputs, outputTimeoutMs, cause.kind === 'exited' ? () => isStopRequested(run) : abandoned);

  if (cause.kind === 'not_started') {
    const problem = await readSandboxProblem(job.workspace.stderr);
    if (!problem.startsWith('execvp ')) return { sandboxProblem: problem };
    const reason = `its program could not be started: ${problem.slice('execvp '.length)}`;
    return buildEndWithoutStart('rejected', reason, Date.now());
  }
  return {
    ...toRunOutcome(decisiveCause(cause, causes.all), job, limits),
    startedAt: run.startedAt,
    endedAt: Math.max(run.startedAt, Date.now()),
    elapsedSeconds: Math.max(1, Math.round(elapsedMs / 1000)),
  };
}

/** Excess output may be detected only after the exit, but was written before it, and therefore takes precedence. */
function decisiveCause(cause: EndCause, all: Cause[]): EndCause {
  if (cause.kind !== 'exited') return cause;
  return all.find((other) => other.kind === 'output_exceeded' || other.kind === 'node_error') ?? cause;
}

const abandoned = async () => true;

async function finishAll(outputs: Output[], timeoutMs: number, isAbandoned = abandoned): Promise<void> {
  await Promise.all(outputs.map((output) => output.finish(timeoutMs, isAbandoned)));
}

function onAbort(signal: AbortSignal, action: () => void): void {
  if (signal.aborted) action();
  else signal.addEventListener('abort', action, { once: true });
}

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemErrorCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { bytesPerKb } from '../../domain/units.ts';
import type { EngineJob } from '../engine.ts';
import { type Invocation, prepareCommand } from './command.ts';
import { type Cause, deservesGrace, endUnstarted, type JobLimits, judge } from './ending.ts';
import { jobEnvironment, scratchFolderOf } from './environment.ts';
import { type Output, openOutput } from './output.ts';
import type { JobProcesses, ProcessId } from './process-table.ts';
import { identify, killJob, residentKb, terminateJob } from './processes.ts';
import { watchLimits } from './watch-limits.ts';

export interface Run {
  job: EngineJob;
  limits: JobLimits;
  /** A folder for the pipes. */
  folder: string;
  startedAt: number;
  /** Aborted when the supervisor is told to stop. */
  stop: AbortSignal;
  /** True when it is the owner who wants the job to end. */
  isMarkedCancelled(): Promise<boolean>;
  /** Called as soon as the job has processes. */
  onLeader(leader: ProcessId): Promise<void>;
}

/**
 * Runs a job to its end. When it returns, nothing of the job is alive, its output is durable, and its folder for
 * temporary files is gone. It fails when the machine does (no memory, no space), and leaves the same behind.
 */
export async function runJob(run: Run): Promise<JobEnd> {
  const { directory } = run.job.workspace;
  const env = jobEnvironment(run.job);
  const invocation = await prepareCommand(run.job.command, directory, env.PATH);
  if ('rejected' in invocation) return endUnstarted('rejected', invocation.rejected, Date.now());

  const causes = createCauses();
  const outputs = await openOutputs(run, causes);
  try {
    await mkdir(env.TMPDIR, { recursive: true });
    const byOwner = await run.isMarkedCancelled();
    if (byOwner || run.stop.aborted) {
      const { outcome, reason } = judge({ kind: 'cancelled', byOwner }, run.job, run.limits);
      return endUnstarted(outcome, reason, Date.now());
    }
    const child = await start(invocation, directory, env, outputs, causes.add);
    if (child instanceof Error) return endNotStarted(child, invocation.program);
    return await attend(run, child, outputs, causes);
  } finally {
    await finishAll(outputs, 0);
    await rm(scratchFolderOf(run.job), { recursive: true, force: true }).catch(() => {});
  }
}

/** What has happened to a job so far. */
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

function openOutputs(run: Run, causes: Causes): Promise<Output[]> {
  const open = (stream: 'stdout' | 'stderr') =>
    openOutput({
      file: run.job.workspace[stream],
      pipe: join(run.folder, `${stream}.pipe`),
      capBytes: run.limits.outputKb * bytesPerKb,
      onExceeded: () => causes.add({ kind: 'output_exceeded', stream }),
      onFailure: (error) =>
        causes.add({ kind: 'broken', reason: `its ${stream} could not be kept (${systemErrorCode(error)})` }),
    });
  return Promise.all([open('stdout'), open('stderr')]);
}

type Program = Exclude<Invocation, { rejected: string }>;

/** The job's first process, or why there is none. */
async function start(
  { program, args }: Program,
  cwd: string,
  env: Record<string, string>,
  outputs: Output[],
  onCause: (cause: Cause) => void,
): Promise<ChildProcess | Error> {
  try {
    const stdio = ['ignore' as const, ...outputs.map((output) => output.writeEnd)];
    const child = spawn(program, args, { cwd, env, stdio, detached: true });
    child.once('exit', (code, signal) => onCause({ kind: 'exited', code, signal }));
    return await new Promise((resolve) => child.once('spawn', () => resolve(child)).once('error', resolve));
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Errors that lie in what the job asked for; any other is the machine's. */
const requestErrors = new Set(['ENOENT', 'EACCES', 'ENOTDIR', 'ENOEXEC', 'ELOOP', 'E2BIG', 'ERR_INVALID_ARG_VALUE']);

function endNotStarted(error: Error, program: string): JobEnd {
  const code = systemErrorCode(error) ?? '';
  const hint = code === 'E2BIG' ? 'the command is too long' : `it could not be started (${code})`;
  return endUnstarted(requestErrors.has(code) ? 'rejected' : 'node_failed', `${program}: ${hint}`, Date.now());
}

/** How long to wait for the rest of the output when everything that could write it is dead. */
const lastOutputMs = 2_000;

async function attend(run: Run, child: ChildProcess, outputs: Output[], causes: Causes): Promise<JobEnd> {
  const { job, limits } = run;
  const startedMs = performance.now();
  for (const output of outputs) output.read();
  const leader = child.pid === undefined ? null : await identify(child.pid).catch(() => null);
  const processes: JobProcesses = { jobId: job.jobId, leader };
  // Without this record a job whose supervisor dies is still found by its environment, at least on Linux.
  if (leader !== null) run.onLeader(leader).catch(() => {});

  const ended = new AbortController();
  onAbort(run.stop, async () => causes.add({ kind: 'cancelled', byOwner: await run.isMarkedCancelled() }));
  const watching = watchLimits({
    runtimeSeconds: job.runtimeSeconds,
    memoryMb: limits.memoryMb,
    residentKb: () => residentKb(processes),
    isCancelled: run.isMarkedCancelled,
    onCause: causes.add,
    until: ended.signal,
  });
  const cause = await causes.first;
  ended.abort();
  await watching;

  if (deservesGrace(cause)) await terminateJob(processes, limits.killGraceSeconds * 1000);
  await killJob(processes);
  const elapsedMs = performance.now() - startedMs;
  await finishAll(outputs, lastOutputMs);

  return {
    ...judge(firstOf(cause, causes.all), job, limits),
    startedAt: run.startedAt,
    endedAt: Math.max(run.startedAt, Date.now()),
    elapsedSeconds: Math.max(1, Math.round(elapsedMs / 1000)),
  };
}

/** Output that was found to be too much after the job had exited was written before. */
function firstOf(cause: Cause, all: Cause[]): Cause {
  if (cause.kind !== 'exited') return cause;
  return all.find(({ kind }) => kind === 'output_exceeded' || kind === 'broken') ?? cause;
}

async function finishAll(outputs: Output[], patienceMs: number): Promise<void> {
  await Promise.all(outputs.map((output) => output.finish(patienceMs)));
}

function onAbort(signal: AbortSignal, action: () => void): void {
  if (signal.aborted) action();
  else signal.addEventListener('abort', action, { once: true });
}

import { type EndRecord, type RecordedEnd, refusalExitCode } from '../src/domain/jobs/end-record.ts';
import type { ReportedEnd } from '../src/domain/jobs/job.ts';
import type { EngineJob } from '../src/engines/engine.ts';
import { outcomeForShellExitCode } from '../src/engines/exit-outcome.ts';

/** A program on a node. */
export interface Program {
  /** Resolves to the exit code as a shell reports it: 128 plus the number of the signal that ended the program. */
  ended: Promise<number>;
  stop(): void;
}

/** One run of a job on its node: the truth that reports and charges are compared with. */
export interface Run {
  ref: string;
  node: number;
  startedAt: number;
  endedAt: number | null;
  exitCode: number | null;
  /** The cause of its end; null if the program ended by itself. */
  stoppedBy: 'time limit' | 'cancellation' | 'node failure' | 'controller' | null;
  /** The end record that the wrapper of the job wrote. A node that fails leaves the record of the start only. */
  record: RecordedEnd | null;
  /** Whether the controller has ended the job as one that never ran, or that started later: it had queued the job again. */
  isStartForgotten: boolean;
  /** Whether the node is about to tell the controller of the end. */
  isReporting: boolean;
  program: Program;
}

export type EndOnNode = Pick<ReportedEnd, 'outcome' | 'reason' | 'exitCode'>;

/** Why a node did not start a job, as it reports it. */
interface StartRefusal {
  end: EndOnNode;
  /** Whether the node still runs the job that had this ref before. The controller then drains the node. */
  isDuplicateRef: boolean;
}

export interface NodeOptions {
  startProgram(job: EngineJob): Program;
  /** How late a node tells the controller of an end. */
  reportDelayMs(): number;
  now(): number;
  onEvent(text: string): void;
  onEnd(jobId: string, run: Run): void;
}

const sigterm = 15;

export type Nodes = ReturnType<typeof createNodes>;

/**
 * The nodes of the simulated scheduler. Like the wrapper of a Slurm job, they keep a durable record of each start and end, and
 * refuse a second start.
 */
export function createNodes({ startProgram, reportDelayMs, now, onEvent, onEnd }: NodeOptions) {
  /** By job id. */
  const runs = new Map<string, Run>();
  const preventedStarts = new Set<string>();
  const forgottenRecords = new Set<string>();

  function run(ref: string, job: EngineJob, node: number): void {
    onEvent(`job ${ref} of ${job.jobId} starts on node ${node}`);
    const program = startProgram(job);
    const started: Run = {
      ref,
      node,
      startedAt: now(),
      endedAt: null,
      exitCode: null,
      stoppedBy: null,
      record: null,
      isStartForgotten: false,
      isReporting: false,
      program,
    };
    runs.set(job.jobId, started);
    void program.ended.then((code) => endRun(job.jobId, started, code));
  }

  function endRun(jobId: string, ended: Run, code: number): void {
    // The node has failed.
    if (ended.endedAt !== null) return;
    ended.endedAt = now();
    ended.exitCode = code;
    ended.record = toRecord(ended, ended.endedAt, code);
    ended.isReporting = true;
    onEvent(`${jobId} has ended on its node with exit code ${code}`);
    setTimeout(() => {
      ended.isReporting = false;
      onEnd(jobId, ended);
    }, reportDelayMs());
  }

  function stop(running: Run, by: Run['stoppedBy']): void {
    if (running.endedAt !== null || running.stoppedBy !== null) return;
    running.stoppedBy = by;
    running.program.stop();
  }

  return {
    runs: runs as ReadonlyMap<string, Run>,

    /** Starts a job. Returns what the node reports at once if it refuses to, or null. */
    start(ref: string, job: EngineJob, node: number): StartRefusal | null {
      const isOther = ([jobId, other]: [string, Run]) =>
        jobId !== job.jobId && other.ref === ref && other.node === node && other.endedAt === null;
      if ([...runs].some(isOther)) {
        const end = { outcome: 'cancelled', reason: 'cancelled (node refused)', exitCode: null } as const;
        return { end, isDuplicateRef: true };
      }
      const earlier = runs.get(job.jobId);
      // The controller has forgotten the start.
      if (earlier !== undefined) stop(earlier, 'controller');
      if (earlier !== undefined || preventedStarts.has(job.jobId)) {
        const end = { outcome: 'failed', reason: `exit code ${refusalExitCode}`, exitCode: refusalExitCode } as const;
        return { end, isDuplicateRef: false };
      }
      run(ref, job, node);
      return null;
    },

    stop,

    /** The run ends, and leaves no record. */
    stopWithoutRecord(running: Run, by: Run['stoppedBy']): void {
      stop(running, by);
      running.endedAt = now();
      running.record = null;
    },

    findLive(ref: string, jobId: string): Run | undefined {
      const found = runs.get(jobId);
      return found?.ref === ref && found.endedAt === null ? found : undefined;
    },

    recordOf(jobId: string): EndRecord {
      const found = runs.get(jobId);
      if (found === undefined) return 'never_started';
      return found.record === null || forgottenRecords.has(jobId) ? 'not_ended' : found.record;
    },

    forgetRecord(jobId: string): void {
      forgottenRecords.add(jobId);
    },

    /** Returns false if the job has started. */
    preventStart(jobId: string): boolean {
      if (runs.has(jobId)) return false;
      preventedStarts.add(jobId);
      return true;
    },

    async stopAll(): Promise<void> {
      for (const running of runs.values()) stop(running, 'cancellation');
      await Promise.all([...runs.values()].map(({ program }) => program.ended));
    },
  };
}

export function describeEnd({ stoppedBy, exitCode }: Run): EndOnNode {
  switch (stoppedBy) {
    case 'time limit':
      return { outcome: 'timed_out', reason: 'time limit reached', exitCode: null };
    case 'cancellation':
      return { outcome: 'cancelled', reason: 'cancelled', exitCode: null };
    default:
      return outcomeForShellExitCode(exitCode ?? 0);
  }
}

function toRecord({ startedAt, stoppedBy }: Run, endedAt: number, code: number): RecordedEnd {
  const elapsedSeconds = Math.max(1, Math.round((endedAt - startedAt) / 1000));
  const wasTerminated = stoppedBy !== null || code === 128 + sigterm;
  return { ...outcomeForShellExitCode(code), startedAt, endedAt, elapsedSeconds, wasTerminated, writtenAt: endedAt };
}

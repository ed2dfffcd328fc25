import { BursarError } from '../src/domain/errors.ts';
import { type EndRecord, type RecordedEnd, refusalExitCode } from '../src/domain/jobs/end-record.ts';
import type { ReportedEnd } from '../src/domain/jobs/job.ts';
import type { Observation } from '../src/domain/jobs/transition.ts';
import { type Engine, type EngineJob, startDirectoryOf } from '../src/engines/engine.ts';
import { readScriptFile } from '../src/engines/script-file.ts';
import { outcomeForShellExitCode } from '../src/engines/slurm/observation.ts';

/** A program on a node. */
export interface Program {
  /** Resolves to the exit code as a shell reports it: 128 plus the number of the signal that ended the program. */
  ended: Promise<number>;
  stop(): void;
}

export interface SchedulerOptions {
  cores: number;
  startProgram(job: EngineJob): Program;
  /** Ended jobs are listed for this long. */
  minJobAgeMs?: number;
  /** Difference between the clock of the system and that of the database. */
  clockOffsetMs?: number;
  /** Whether nothing is left of a job once the engine may forget it. Default: it is listed for `minJobAgeMs`. */
  forgetsRecords?: boolean;
  /** How late the controller learns of an end. */
  reportDelayMs?(): number;
  onEvent?(text: string): void;
}

/** One run of a job on its node: the truth that reports and charges are compared with. */
export interface Run {
  ref: string;
  startedAt: number;
  endedAt: number | null;
  exitCode: number | null;
  /** The cause of its end; null if the program ended by itself. */
  stoppedBy: 'time limit' | 'cancellation' | 'node failure' | 'controller' | null;
  /** What the wrapper of the job wrote. A node that fails leaves the start, and no end. */
  record: RecordedEnd | null;
  /** Whether the node is about to tell the controller of the end. */
  isReporting: boolean;
  program: Program;
}

/** A job in the controller. Never changed, only replaced, which makes a copy of the controller's state cheap. */
interface Entry {
  ref: string;
  job: EngineJob;
  isHeld: boolean;
  startedAt: number | null;
  end: ReportedEnd | null;
}

interface SavedState {
  at: number;
  nextRef: number;
  entries: ReadonlyMap<string, Entry>;
}

const sigterm = 15;
/** Time between the restart of a controller and the reports of its nodes. */
const nodeReportMs = 3000;

export type Scheduler = ReturnType<typeof createScheduler>;

/**
 * A scheduler like Slurm, in memory. It outlives the servers, runs a job twice if it is told to, and can do what schedulers
 * were seen to do when a controller or a node is killed. Like the wrapper of a Slurm job, its nodes keep a durable record of
 * each start and end, and refuse a second start.
 */
export function createScheduler(options: SchedulerOptions) {
  const { cores, minJobAgeMs = 300_000, onEvent = () => undefined } = options;
  let entries = new Map<string, Entry>();
  let nextRef = 1;
  let saved: SavedState[] = [];
  let isUp = true;
  let isFull = false;
  /** By job id. */
  const runs = new Map<string, Run>();
  const preventedStarts = new Set<string>();
  /** Entries that ended and are not listed any more. */
  const purged = new Set<string>();
  const forgottenRecords = new Set<string>();
  const listeners = new Set<() => void>();
  const now = () => Date.now() + (options.clockOffsetMs ?? 0);

  const isRunning = ({ startedAt, end }: Entry) => startedAt !== null && end === null;
  const coresOf = ({ nodes, coresPerNode }: EngineJob) => Math.min(cores, nodes * coresPerNode);
  const liveRun = ({ ref, job }: Entry) => {
    const run = runs.get(job.jobId);
    return run?.ref === ref && run.endedAt === null ? run : undefined;
  };

  function update(entry: Entry): void {
    entries.set(entry.ref, entry);
    saved.push({ at: now(), nextRef, entries: new Map(entries) });
    for (const listener of listeners) listener();
  }

  function finish(entry: Entry, end: Omit<ReportedEnd, 'startedAt' | 'endedAt' | 'elapsedSeconds'>, endedAt = now()) {
    const { startedAt } = entry;
    const elapsedSeconds = startedAt === null ? 0 : Math.max(1, Math.round((endedAt - startedAt) / 1000));
    onEvent(`job ${entry.ref} of ${entry.job.jobId} ends: ${end.reason}`);
    update({ ...entry, end: { ...end, startedAt, endedAt: Math.max(endedAt, startedAt ?? 0), elapsedSeconds } });
    startQueued();
  }

  function startQueued(): void {
    if (!isUp) return;
    for (const entry of entries.values()) {
      if (entry.startedAt !== null || entry.end !== null || entry.isHeld) continue;
      const used = [...entries.values()].filter(isRunning).reduce((sum, { job }) => sum + coresOf(job), 0);
      if (used + coresOf(entry.job) > cores) return;
      start(entry);
    }
  }

  function start(queued: Entry): void {
    const startedAt = now();
    const entry = { ...queued, startedAt };
    update(entry);
    const refusal = refuseStart(entry);
    if (refusal === null) startRun(entry, startedAt);
    else finish(entry, refusal);
  }

  /** Returns the end that a node reports if it refuses to start the job, or null if it starts it. */
  function refuseStart({ ref, job }: Entry): Pick<ReportedEnd, 'outcome' | 'reason' | 'exitCode'> | null {
    const isOther = ([jobId, run]: [string, Run]) => jobId !== job.jobId && run.ref === ref && run.endedAt === null;
    // The node still runs the job that had this ref before the controller forgot it.
    if ([...runs].some(isOther)) return { outcome: 'cancelled', reason: 'cancelled (node refused)', exitCode: null };
    const earlier = runs.get(job.jobId);
    // The controller has forgotten the start.
    if (earlier !== undefined) stopRun(earlier, 'controller');
    if (earlier === undefined && !preventedStarts.has(job.jobId)) return null;
    return { outcome: 'failed', reason: `exit code ${refusalExitCode}`, exitCode: refusalExitCode };
  }

  function startRun({ ref, job }: Entry, startedAt: number): void {
    onEvent(`job ${ref} of ${job.jobId} starts`);
    const program = options.startProgram(job);
    const run: Run = {
      ref,
      startedAt,
      endedAt: null,
      exitCode: null,
      stoppedBy: null,
      record: null,
      isReporting: false,
      program,
    };
    runs.set(job.jobId, run);
    setTimeout(advance, job.runtimeSeconds * 1000).unref();
    void program.ended.then((code) => endRun(job.jobId, run, code));
  }

  /** The program has ended. Its node tells the controller, unless the node has failed. */
  function endRun(jobId: string, run: Run, code: number): void {
    if (run.endedAt !== null) return;
    run.endedAt = now();
    run.exitCode = code;
    run.record = toRecord(run, run.endedAt, code);
    run.isReporting = true;
    onEvent(`${jobId} has ended on its node with exit code ${code}`);
    setTimeout(() => reportEnd(jobId, run), options.reportDelayMs?.() ?? 0);
  }

  function reportEnd(jobId: string, run: Run): void {
    run.isReporting = false;
    const entry = entries.get(run.ref);
    // A controller that is down learns of it when it comes back.
    if (!isUp || entry?.job.jobId !== jobId || !isRunning(entry)) return;
    finish(entry, describeEnd(run), run.endedAt ?? now());
  }

  function describeEnd({ stoppedBy, exitCode }: Run): Pick<ReportedEnd, 'outcome' | 'reason' | 'exitCode'> {
    switch (stoppedBy) {
      case 'time limit':
        return { outcome: 'timed_out', reason: 'time limit reached', exitCode: null };
      case 'cancellation':
        return { outcome: 'cancelled', reason: 'cancelled', exitCode: null };
      default:
        return outcomeForShellExitCode(exitCode ?? 0);
    }
  }

  function stopRun(run: Run, by: Run['stoppedBy']): void {
    if (run.endedAt !== null || run.stoppedBy !== null) return;
    run.stoppedBy = by;
    run.program.stop();
  }

  /** Ends jobs at their time limit, and removes ended jobs from the list. */
  function advance(): void {
    if (!isUp) return;
    for (const entry of entries.values()) {
      const { ref, job, startedAt, end } = entry;
      if (end !== null && now() - end.endedAt >= minJobAgeMs) {
        entries.delete(ref);
        purged.add(`${ref} ${job.jobId}`);
      } else if (isRunning(entry) && now() - (startedAt ?? 0) >= job.runtimeSeconds * 1000) {
        const run = liveRun(entry);
        if (run !== undefined) stopRun(run, 'time limit');
        // The controller has missed the end, and no node knows the job.
        else if (!runs.get(job.jobId)?.isReporting)
          finish(entry, { outcome: 'timed_out', reason: 'time limit reached', exitCode: null, isExitMissing: true });
      }
    }
  }

  /**
   * Kills the controller. It loses what it did in the last `lostMs`: submissions, starts and ends. It then gives refs again. A
   * node that is asked about an unknown job kills it; its end record may be lost.
   */
  function crashController(lostMs: number, downMs: number, random: () => number): void {
    isUp = false;
    const restored = saved.findLast(({ at }) => at <= now() - lostMs) ?? { at: 0, nextRef: 1, entries: new Map() };
    entries = new Map(restored.entries);
    nextRef = restored.nextRef;
    saved = saved.filter(({ at }) => at <= restored.at);
    setTimeout(() => {
      isUp = true;
      onEvent('the controller is back');
      setTimeout(() => compareWithNodes(random), nodeReportMs);
    }, downMs);
  }

  function compareWithNodes(random: () => number): void {
    if (!isUp) return;
    for (const [jobId, run] of runs) {
      const entry = entries.get(run.ref);
      const isKnown = entry?.job.jobId === jobId && isRunning(entry);
      if (run.endedAt === null && !isKnown) {
        stopRun(run, 'controller');
        if (random() < 0.5) loseRecord(run);
      } else if (run.endedAt !== null && isKnown && random() < 0.5) {
        // Otherwise the controller shows the job as running, up to its time limit.
        if (run.stoppedBy !== 'node failure' && random() < 0.5) reportEnd(jobId, run);
        else finish(entry, { outcome: 'node_failed', reason: 'a node of the job failed', exitCode: null });
      }
    }
    for (const entry of entries.values())
      if (isRunning(entry))
        setTimeout(advance, Math.max(1, entry.job.runtimeSeconds * 1000 - (now() - (entry.startedAt ?? 0))));
    startQueued();
  }

  /** Kills a node: its jobs end without a record, and the controller notices it after a while. */
  function failNode(random: () => number, noticeMs: number): void {
    const running = [...runs].filter(([, run]) => run.endedAt === null);
    const [jobId, run] = running[Math.floor(random() * running.length)] ?? [];
    if (jobId === undefined || run === undefined) return;
    loseRecord(run);
    run.stoppedBy = 'node failure';
    run.program.stop();
    const isRequeued = random() < 0.3;
    setTimeout(() => {
      const entry = entries.get(run.ref);
      if (!isUp || entry?.job.jobId !== jobId || !isRunning(entry)) return;
      if (!isRequeued)
        return finish(entry, { outcome: 'node_failed', reason: 'a node of the job failed', exitCode: null });
      onEvent(`job ${run.ref} is queued again`);
      update({ ...entry, startedAt: null });
      startQueued();
    }, noticeMs);
  }

  function loseRecord(run: Run): void {
    run.endedAt = now();
    run.record = null;
  }

  function recordOf(jobId: string): EndRecord {
    const run = runs.get(jobId);
    if (run === undefined) return 'never_started';
    return run.record === null || forgottenRecords.has(jobId) ? 'not_ended' : run.record;
  }

  function requireUp(): void {
    if (!isUp) throw unavailable('the controller does not respond');
    advance();
  }

  const entriesOf = (jobId: string) => [...entries.values()].filter(({ job }) => job.jobId === jobId);

  /** A job that a node refused counts as not submitted. */
  const isSubmission = ({ job, startedAt, end }: Entry) =>
    end === null || startedAt === null || recordOf(job.jobId) !== 'never_started';

  function createEngine(): Engine {
    const forgotten = new Set<string>();
    const nameOf = ({ ref, job }: Entry) => `${ref} ${job.jobId}`;
    return {
      async open() {
        requireUp();
      },

      async submit(job, signal, { isFirstTry = false, beforeSubmission } = {}) {
        signal.throwIfAborted();
        requireUp();
        if (!isFirstTry) {
          const [existing, ...duplicates] = entriesOf(job.jobId).filter(isSubmission);
          if (existing !== undefined) {
            beforeSubmission?.();
            for (const entry of duplicates) if (entry.isHeld && entry.end === null) cancelEntry(entry);
            return existing.ref;
          }
        }
        if (job.command.kind === 'script') {
          const file = await readScriptFile(startDirectoryOf(job), job.command.script);
          if ('rejected' in file) throw new BursarError('job_refused', file.rejected);
        }
        if (isFull) throw new BursarError('queue_full', 'the queue is full', { transient: true });
        // Another submission may have come in between.
        const earlier = isFirstTry ? undefined : entriesOf(job.jobId).find(isSubmission);
        beforeSubmission?.();
        if (earlier !== undefined) return earlier.ref;
        const ref = String(nextRef++);
        update({ ref, job, isHeld: true, startedAt: null, end: null });
        return ref;
      },

      async release(refs) {
        requireUp();
        for (const [jobId, ref] of refs) {
          const entry = entries.get(ref);
          if (entry?.job.jobId === jobId && entry.isHeld && entry.end === null) update({ ...entry, isHeld: false });
        }
        startQueued();
      },

      async find(jobs) {
        requireUp();
        const found = new Map<string, string>();
        for (const { jobId } of jobs) {
          const entry = entriesOf(jobId).find(isSubmission);
          if (entry !== undefined) found.set(jobId, entry.ref);
        }
        return found;
      },

      async observe(expected) {
        requireUp();
        return [...entries.values()].flatMap((entry): Observation[] => {
          const { ref, job, isHeld, startedAt, end } = entry;
          const { jobId } = job;
          const isDuplicate = expected.has(jobId) && expected.get(jobId) !== ref;
          if (end !== null && (forgotten.has(nameOf(entry)) || isDuplicate)) return [];
          if (end !== null) return [{ jobId, ref, kind: 'finished', ...end }];
          if (startedAt !== null) return [{ jobId, ref, kind: 'running', startedAt }];
          return [{ jobId, ref, kind: 'queued', held: isHeld }];
        });
      },

      readEndRecords: async (workspaces) => new Map([...workspaces.keys()].map((jobId) => [jobId, recordOf(jobId)])),

      async preventStart({ directory }) {
        const [, jobId = ''] = /([^/]+)\/[^/]+$/.exec(directory) ?? [];
        if (runs.has(jobId)) return false;
        preventedStarts.add(jobId);
        return true;
      },

      async inspectMissing(missing) {
        requireUp();
        const statuses = [...missing].map(([jobId, { ref }]) => {
          const isForgotten = entries.get(ref)?.job.jobId !== jobId && !purged.has(`${ref} ${jobId}`);
          return [jobId, { record: recordOf(jobId), isForgotten }] as const;
        });
        return new Map(statuses);
      },

      async discard(refs) {
        requireUp();
        for (const ref of refs) {
          const entry = entries.get(ref);
          if (entry?.isHeld && entry.end === null) cancelEntry(entry);
        }
      },

      async cancel(jobId) {
        requireUp();
        for (const entry of entriesOf(jobId)) cancelEntry(entry);
      },

      async forget(jobIds) {
        for (const entry of jobIds.flatMap(entriesOf)) {
          if (entry.end === null) continue;
          forgotten.add(nameOf(entry));
          if (!options.forgetsRecords) continue;
          entries.delete(entry.ref);
          forgottenRecords.add(entry.job.jobId);
        }
      },

      async health() {
        return { ok: isUp, detail: isUp ? 'the controller responds' : 'the controller does not respond' };
      },

      onChange(listener) {
        listeners.add(listener);
      },

      async close() {
        listeners.clear();
      },
    };
  }

  function cancelEntry(entry: Entry): void {
    if (entry.end !== null) return;
    const run = liveRun(entry);
    if (run !== undefined) {
      stopRun(run, 'cancellation');
      return;
    }
    const last = runs.get(entry.job.jobId);
    if (last?.ref === entry.ref && last.isReporting) return;
    finish(entry, { outcome: 'cancelled', reason: 'cancelled', exitCode: null });
  }

  return {
    createEngine,
    crashController,
    failNode,
    setFull(value: boolean) {
      isFull = value;
    },
    runs: runs as ReadonlyMap<string, Run>,
    /** Jobs that have not ended, for the check that nothing is left. */
    unfinished: () =>
      [...entries.values()].filter(({ end }) => end === null).map(({ ref, job }) => `${ref} ${job.jobId}`),
    /** Ends all programs. */
    async stopAll() {
      isUp = false;
      for (const run of runs.values()) stopRun(run, 'cancellation');
      await Promise.all([...runs.values()].map(({ program }) => program.ended));
    },
  };
}

function toRecord({ startedAt, stoppedBy }: Run, endedAt: number, code: number): RecordedEnd {
  const elapsedSeconds = Math.max(1, Math.round((endedAt - startedAt) / 1000));
  const wasTerminated = stoppedBy !== null || code === 128 + sigterm;
  return { ...outcomeForShellExitCode(code), startedAt, endedAt, elapsedSeconds, wasTerminated, writtenAt: endedAt };
}

const unavailable = (message: string) => new BursarError('unavailable', message, { transient: true });

import { BursarError } from '../src/domain/errors.ts';
import type { ReportedEnd } from '../src/domain/jobs/job.ts';
import type { EngineJob } from '../src/engines/engine.ts';
import { createSimulatedEngine } from './engine.ts';
import { createNodes, describeEnd, type EndOnNode, type NodeOptions, type Nodes, type Run } from './nodes.ts';

export interface SchedulerOptions extends Pick<NodeOptions, 'startProgram'> {
  /** Default: 1. */
  nodes?: number;
  coresPerNode: number;
  /** An ended job is listed only after this time: for as long it is neither in the queue nor among the ended jobs. */
  listsEndsAfterMs?: number;
  /** Difference between the clock of the system and that of the database. */
  clockOffsetMs?: number;
  /** Whether nothing is left of a job once the engine may forget it. Default: it is listed for `minJobAgeMs`. */
  forgetsRecords?: boolean;
  reportDelayMs?(): number;
  onEvent?(text: string): void;
}

/** A job in the controller. Never changed, only replaced, which makes a copy of the controller's state cheap. */
export interface Entry {
  ref: string;
  job: EngineJob;
  isHeld: boolean;
  startedAt: number | null;
  /** The number of the node where it was started. */
  node: number | null;
  end: (ReportedEnd & { reportedAt: number }) | null;
}

/** The controller as its commands see it. */
export interface Controller {
  nodes: Nodes;
  /** Called after every change. */
  listeners: Set<() => void>;
  isUp(): boolean;
  /** Throws if the controller does not respond. */
  requireUp(): void;
  list(): Entry[];
  find(ref: string): Entry | undefined;
  findAll(jobId: string): Entry[];
  /** Whether the job has ended and is not listed any more. */
  wasPurged(ref: string, jobId: string): boolean;
  /** Stores a held job, and returns its ref. */
  add(job: EngineJob): string;
  release(entry: Entry): void;
  cancel(entry: Entry): void;
  forget(entry: Entry): void;
}

/** A node refused to start a job. */
interface Refusal {
  ref: string;
  jobId: string;
  node: number;
  end: EndOnNode;
  refusedAt: number;
}

interface SavedState {
  at: number;
  nextRef: number;
  entries: ReadonlyMap<string, Entry>;
}

/** Ended jobs are listed for this long. */
const minJobAgeMs = 300_000;
/** Time between the restart of a controller and the reports of its nodes. */
const nodeReportMs = 3000;
/** Until a node has reported that it refuses a job, the controller shows the job as running. */
const refusalReportMs = 1000;
/** Until an administrator lets a drained node run jobs again. */
const drainedMs = 20_000;
/** A node that cannot be reached responds after such a time. */
const [minUnreachableMs, maxUnreachableMs] = [20_000, 45_000];

/** OpenPBS reports success for a job whose end it missed. */
const unknownEnd: EndOnNode = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 };
const nodeFailed: EndOnNode = { outcome: 'node_failed', reason: 'a node of the job failed', exitCode: null };

export type Scheduler = ReturnType<typeof createScheduler>;

/**
 * A scheduler like Slurm, in memory. It outlives the servers, starts a job twice if it is told to, and can do what schedulers
 * were seen to do when a controller or a node is killed.
 */
export function createScheduler(options: SchedulerOptions) {
  const { nodes: nodeCount = 1, coresPerNode, startProgram, listsEndsAfterMs = 0 } = options;
  const { reportDelayMs = () => 0, onEvent = () => undefined } = options;
  let entries = new Map<string, Entry>();
  let nextRef = 1;
  let saved: SavedState[] = [];
  let isUp = true;
  let isFull = false;
  /** Entries that ended and are not listed any more. */
  const purged = new Set<string>();
  /** Submissions that were released although another submission of their job had started, or waited for its start. */
  const repeatedReleases: string[] = [];
  const drainedNodes = new Set<number>();
  const refusals: Refusal[] = [];
  const listeners = new Set<() => void>();
  const now = () => Date.now() + (options.clockOffsetMs ?? 0);
  const nodes = createNodes({ startProgram, reportDelayMs, now, onEvent, onEnd: reportEnd });

  const isRunning = ({ startedAt, end }: Entry) => startedAt !== null && end === null;
  const coresOf = ({ nodes: count, coresPerNode: cores }: EngineJob) => Math.min(coresPerNode, count * cores);
  /** The entry of a job that runs for the controller, if it knows the job by this ref. */
  const entryOf = (jobId: string, { ref }: Pick<Run, 'ref'>) => {
    const entry = entries.get(ref);
    return entry?.job.jobId === jobId && isRunning(entry) ? entry : undefined;
  };

  function update(entry: Entry): void {
    entries.set(entry.ref, entry);
    saved.push({ at: now(), nextRef, entries: new Map(entries) });
    for (const listener of listeners) listener();
  }

  function finish(entry: Entry, end: EndOnNode & { isExitMissing?: boolean }, endedAt = now()): void {
    const { startedAt } = entry;
    const elapsedSeconds = startedAt === null ? 0 : Math.max(1, Math.round((endedAt - startedAt) / 1000));
    onEvent(`job ${entry.ref} of ${entry.job.jobId} ends: ${end.reason}`);
    const run = nodes.runs.get(entry.job.jobId);
    if (run !== undefined && (startedAt === null || startedAt > run.startedAt)) run.isStartForgotten = true;
    const times = { startedAt, endedAt: Math.max(endedAt, startedAt ?? 0), elapsedSeconds, reportedAt: now() };
    update({ ...entry, end: { ...end, ...times } });
    startQueued();
  }

  function startQueued(): void {
    if (!isUp) return;
    for (const entry of entries.values()) {
      if (entry.startedAt !== null || entry.end !== null || entry.isHeld) continue;
      const node = findFreeNode(coresOf(entry.job));
      if (node === undefined) return;
      start(entry, node);
    }
  }

  function findFreeNode(cores: number): number | undefined {
    const used = Array.from({ length: nodeCount }, () => 0);
    for (const { node, job } of [...entries.values()].filter(isRunning))
      used[node ?? 0] = (used[node ?? 0] ?? 0) + coresOf(job);
    const index = used.findIndex((count, node) => !drainedNodes.has(node) && count + cores <= coresPerNode);
    return index < 0 ? undefined : index;
  }

  function start(queued: Entry, node: number): void {
    const entry = { ...queued, startedAt: now(), node };
    update(entry);
    const refusal = nodes.start(entry.ref, entry.job, node);
    if (refusal === null) {
      setTimeout(advance, entry.job.runtimeSeconds * 1000).unref();
      return;
    }
    const { ref, job } = entry;
    const refused = { ref, jobId: job.jobId, node, end: refusal.end, refusedAt: now() };
    refusals.push(refused);
    setTimeout(() => reportRefusal(refused), refusalReportMs);
    if (refusal.isDuplicateRef) drain(node);
  }

  /** Nothing starts on the node until an administrator has resumed it. */
  function drain(node: number): void {
    onEvent(`node ${node} is drained`);
    drainedNodes.add(node);
    setTimeout(() => {
      drainedNodes.delete(node);
      startQueued();
    }, drainedMs);
  }

  /** A controller that is down learns of a refusal when it comes back. It ignores that of a node where the job is not any more. */
  function reportRefusal({ jobId, ref, node, end, refusedAt }: Refusal): void {
    const entry = entryOf(jobId, { ref });
    if (isUp && entry?.node === node) finish(entry, end, refusedAt);
  }

  /** A controller that is down learns of an end when it comes back. */
  function reportEnd(jobId: string, run: Run): void {
    const entry = entryOf(jobId, run);
    if (isUp && entry !== undefined) finish(entry, describeEnd(run), run.endedAt ?? now());
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
        const run = nodes.findLive(ref, job.jobId);
        if (run !== undefined) nodes.stop(run, 'time limit');
        // The controller has missed the end, and no node knows the job.
        else if (!nodes.runs.get(job.jobId)?.isReporting)
          finish(entry, { outcome: 'timed_out', reason: 'time limit reached', exitCode: null, isExitMissing: true });
      }
    }
  }

  const list = () =>
    [...entries.values()].filter(({ end }) => end === null || now() - end.reportedAt >= listsEndsAfterMs);

  function cancel(entry: Entry): void {
    if (entry.end !== null) return;
    const run = nodes.findLive(entry.ref, entry.job.jobId);
    const last = nodes.runs.get(entry.job.jobId);
    if (run !== undefined) nodes.stop(run, 'cancellation');
    else if (last?.ref !== entry.ref || !last.isReporting)
      finish(entry, { outcome: 'cancelled', reason: 'cancelled', exitCode: null });
  }

  /**
   * Kills the controller. It loses what it did in the last `lostMs`: submissions, starts and ends. It then gives refs again. A
   * node kills a job that the controller does not know, as soon as the controller reaches it; the end record may be lost.
   * Returns false if it was down.
   */
  function crashController(lostMs: number, downMs: number, random: () => number): boolean {
    if (!isUp) return false;
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
    return true;
  }

  function compareWithNodes(random: () => number): void {
    if (!isUp) return;
    for (const [jobId, run] of nodes.runs) {
      const entry = entryOf(jobId, run);
      if (run.endedAt === null && entry === undefined) {
        const unreachableMs = minUnreachableMs + random() * (maxUnreachableMs - minUnreachableMs);
        setTimeout(() => killUnknown(jobId, run, random), random() < 0.5 ? unreachableMs : 0);
      } else if (run.endedAt !== null && entry !== undefined && random() < 0.5) {
        // Otherwise the controller shows the job as running, up to its time limit.
        if (run.record === null || random() < 0.4) finish(entry, nodeFailed);
        else if (random() < 0.5) reportEnd(jobId, run);
        else finish(entry, unknownEnd, run.endedAt);
      }
    }
    refusals.forEach(reportRefusal);
    for (const entry of entries.values())
      if (isRunning(entry))
        setTimeout(advance, Math.max(1, entry.job.runtimeSeconds * 1000 - (now() - (entry.startedAt ?? 0))));
    startQueued();
  }

  function killUnknown(jobId: string, run: Run, random: () => number): void {
    if (run.endedAt !== null || entryOf(jobId, run) !== undefined) return;
    if (random() < 0.5) nodes.stopWithoutRecord(run, 'controller');
    else nodes.stop(run, 'controller');
  }

  /**
   * Kills a node on which a job runs, and starts it again: its jobs end without a record, and the controller notices it after a
   * while. Returns false if no job runs.
   */
  function failNode(random: () => number, noticeMs: number): boolean {
    const running = [...nodes.runs].filter(([, { endedAt }]) => endedAt === null);
    const [, chosen] = running[Math.floor(random() * running.length)] ?? [];
    if (chosen === undefined) return false;
    const lost = running.filter(([, { node }]) => node === chosen.node);
    for (const [, run] of lost) nodes.stopWithoutRecord(run, 'node failure');
    const isRequeued = random() < 0.3;
    setTimeout(() => {
      for (const [jobId, run] of lost) {
        const entry = entryOf(jobId, run);
        if (!isUp || entry === undefined) continue;
        if (!isRequeued) finish(entry, nodeFailed);
        else {
          onEvent(`job ${run.ref} is queued again`);
          update({ ...entry, startedAt: null });
        }
      }
      startQueued();
    }, noticeMs);
    return true;
  }

  const controller: Controller = {
    nodes,
    listeners,
    isUp: () => isUp,
    requireUp() {
      if (!isUp) throw new BursarError('unavailable', 'the controller does not respond', { transient: true });
      advance();
    },
    list,
    find: (ref) => entries.get(ref),
    findAll: (jobId) => list().filter(({ job }) => job.jobId === jobId),
    wasPurged: (ref, jobId) => purged.has(`${ref} ${jobId}`),
    add(job) {
      if (isFull) throw new BursarError('queue_full', 'the queue is full', { transient: true });
      const ref = String(nextRef++);
      update({ ref, job, isHeld: true, startedAt: null, node: null, end: null });
      return ref;
    },
    release(entry) {
      const { ref, job } = entry;
      const run = nodes.runs.get(job.jobId);
      const waits = [...entries.values()].some(
        (other) => other.ref !== ref && other.job.jobId === job.jobId && !other.isHeld && other.end === null,
      );
      if (waits || (run !== undefined && run.ref !== ref)) repeatedReleases.push(`job ${ref} of ${job.jobId}`);
      update({ ...entry, isHeld: false });
      startQueued();
    },
    cancel,
    forget({ ref, job }) {
      if (!options.forgetsRecords) return;
      entries.delete(ref);
      nodes.forgetRecord(job.jobId);
    },
  };

  return {
    createEngine: () => createSimulatedEngine(controller),
    crashController,
    failNode,
    setFull(value: boolean) {
      isFull = value;
    },
    runs: nodes.runs,
    repeatedReleases,
    countRefusals: (jobId: string) => refusals.filter((refusal) => refusal.jobId === jobId).length,
    /** Jobs that have not ended, for the check that nothing is left. */
    unfinished: () =>
      [...entries.values()].filter(({ end }) => end === null).map(({ ref, job }) => `${ref} ${job.jobId}`),
    /** Ends all programs. */
    async stopAll() {
      isUp = false;
      await nodes.stopAll();
    },
  };
}

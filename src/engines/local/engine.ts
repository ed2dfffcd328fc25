import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { assertNever, BursarError, systemErrorCode } from '../../domain/errors.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { Engine } from '../engine.ts';
import { endCancelledUnstarted, type JobLimits } from './ending.ts';
import { createJobList, type LocalJob } from './job-list.ts';
import { signalProcess } from './processes.ts';
import { claim, markCancelled, publishRequest, readStart } from './records.ts';
import { createScheduler } from './scheduler.ts';

export interface LocalEngineOptions extends JobLimits {
  /** The engine's own folder, for its records; no other engine may use it at the same time. */
  directory: string;
  /** How many cores the jobs that run at one time may ask for together. */
  cores: number;
  now?: () => number;
}

/**
 * Runs jobs as processes of this machine. All that it knows is in its folder: a new engine on the same folder goes
 * on where an earlier one was stopped or killed. It keeps jobs apart from Bursar's secrets and from each other's
 * cores, but they run as the same user: it is no wall against a hostile one.
 */
export function createLocalEngine(options: LocalEngineOptions): Engine {
  const { directory, cores, memoryMb, outputKb, killGraceSeconds, now = Date.now } = options;
  const listeners: (() => void)[] = [];
  let trouble: string | null = null;
  const onTrouble = (text: string) => {
    trouble = text;
  };
  const list = createJobList({ directory, cores, now, onTrouble });
  const scheduler = createScheduler({
    list,
    cores,
    limits: { memoryMb, outputKb, killGraceSeconds },
    cacheFolder: join(directory, '.cache'),
    onTrouble,
    onChange: () => {
      for (const wake of listeners) wake();
    },
  });

  return {
    open: (signal) =>
      guard(signal, async () => {
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await scheduler.withList(list.readAll);
      }),

    submit: (job, signal) =>
      guard(signal, async () => {
        const { jobId } = job;
        // The id becomes the name of a folder.
        if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(jobId)) {
          throw new BursarError('job_refused', `The job id ${JSON.stringify(jobId)} cannot be the name of a folder`);
        }
        if (list.get(jobId) === undefined) {
          await publishRequest(list.folderOf(jobId), { sequence: list.nextSequence(), job });
          await scheduler.withList(async () => {
            if (list.get(jobId) === undefined) await list.read(jobId);
          });
        }
        return ownId(jobId);
      }),

    find: (jobIds, signal) =>
      guard(signal, async () => {
        const known = jobIds.filter((jobId) => list.get(jobId) !== undefined);
        return new Map(known.map((jobId) => [jobId, ownId(jobId)]));
      }),

    // A supervisor claims its job before it runs it: nothing can run twice, so nothing need be held back.
    release: async () => undefined,
    discard: async () => undefined,
    // Its records are its memory: it forgets nothing.
    inspectMissing: async () => new Map(),

    observe: (_expected, signal) =>
      guard(signal, async () => {
        trouble = null;
        return (await scheduler.lookAtAll()).map(observationOf);
      }),

    cancel: (jobId, signal) =>
      guard(signal, async () => {
        const job = list.get(jobId);
        if (job === undefined || job.standing.kind === 'finished') return;
        await withdraw(job, now());
        scheduler.lookAt(job);
      }),

    forget: (jobIds, signal) =>
      guard(signal, () =>
        scheduler.withList(async () => {
          for (const jobId of jobIds) await list.forget(jobId);
        }),
      ),

    health: (signal) =>
      guard(signal, async () => {
        try {
          await writeFile(join(directory, '.health'), `${now()}\n`);
        } catch (error) {
          return { ok: false, detail: `its folder cannot be written (${systemErrorCode(error)})` };
        }
        const counts = `${list.having('running').length} running, ${list.having('queued').length} queued`;
        const detail = `${scheduler.coresInUse()} of ${cores} cores in use, ${counts}`;
        return { ok: true, detail: trouble === null ? detail : `${detail}; last trouble: ${trouble}` };
      }),

    onChange: (wake) => {
      listeners.push(wake);
    },

    close: () => scheduler.stop(),
  };
}

const ownId = (jobId: string) => `local:${jobId}`;

/** Whoever claims a job decides whether it runs: withdrawn in time, it never does; too late, its supervisor ends it. */
async function withdraw({ folder }: LocalJob, at: number): Promise<void> {
  if (await claim(folder, { kind: 'withdrawn', end: endCancelledUnstarted(at) })) return;
  const start = await readStart(folder);
  if (typeof start !== 'object' || start.kind !== 'supervised') return;
  // The mark before the signal: a supervisor that sees the one and not the other still does right.
  await markCancelled(folder);
  await signalProcess(start.supervisor, 'SIGTERM');
}

function observationOf({ jobId, standing }: LocalJob): Observation {
  switch (standing.kind) {
    case 'queued':
      return { jobId, ref: ownId(jobId), kind: 'queued', held: false };
    case 'running':
      return { jobId, ref: ownId(jobId), kind: 'running', startedAt: standing.startedAt };
    case 'finished':
      return { jobId, ref: ownId(jobId), kind: 'finished', ...standing.end };
    default:
      return assertNever(standing);
  }
}

/** The one kind of failure that this engine can have: its records are out of reach for the moment. */
async function guard<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await work();
  } catch (error) {
    if (error instanceof BursarError) throw error;
    const message = `The local engine cannot use its records (${systemErrorCode(error) ?? 'internal error'})`;
    throw new BursarError('unavailable', message, { cause: error, transient: true });
  }
}

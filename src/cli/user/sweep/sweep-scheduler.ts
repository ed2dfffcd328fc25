import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, type Bursar, type Job } from '#client';
import type { TargetedSettings } from '../submit/choose-system.ts';
import type { SweepJournal } from './sweep-journal.ts';
import { hasEnded, isUnfinished, type SweepRun, submitRun } from './sweep-runs.ts';

const concurrentSubmissions = 4;
/** Jobs that are not of this sweep may end too, without an event that is waited for. */
const limitRetryMs = 30_000;

export interface SchedulerDeps {
  client: Bursar;
  journal: SweepJournal;
  runs: readonly SweepRun[];
  /** The maximum number of unfinished jobs of this sweep. */
  maxRunning: number;
  /** The last event before the runs were read. */
  since: number;
  submit(settings: TargetedSettings, key: string): Promise<Job>;
  /** Called after every change of a run. */
  onChange(): void;
  /** Called once for each run that has ended, also for one that ended earlier. */
  onEnd(run: SweepRun): Promise<void>;
  signal: AbortSignal;
}

/** Submits the runs without a job and follows all of them by events. */
export interface SweepScheduler {
  /** Resolves when every run has a job. Throws the first refusal, when the requests that are under way have ended. */
  submitAll(): Promise<void>;
  /** Resolves when every run has ended and its `onEnd` has finished. */
  waitForEnds(): Promise<void>;
  stop(): void;
}

export function createScheduler(deps: SchedulerDeps): SweepScheduler {
  const { client, journal, runs, maxRunning, signal } = deps;
  const stopped = new AbortController();
  const streamSignal = AbortSignal.any([signal, stopped.signal]);
  const ends: Promise<void>[] = [];
  let onNextChange: (() => void)[] = [];
  let failure: { error: unknown } | undefined;

  function notify(): void {
    const listeners = onNextChange;
    onNextChange = [];
    for (const listener of listeners) listener();
    deps.onChange();
  }

  function nextChange(): Promise<void> {
    return new Promise((resolve) => {
      onNextChange.push(resolve);
    });
  }

  function fail(error: unknown): void {
    failure ??= { error };
    notify();
  }

  function endOf(run: SweepRun): void {
    const ending = deps.onEnd(run);
    ending.catch(fail);
    ends.push(ending);
  }

  async function follow(): Promise<void> {
    for await (const { job, type, data } of client.events({ since: deps.since, signal: streamSignal })) {
      const run = job && runs.find((candidate) => candidate.job?.job_id === job.job_id);
      // A submission reads its response later than its events: it looks at the stored job itself.
      if (job) latest.set(job.job_id, { job, outcome: type === 'job.ended' ? (data.outcome ?? null) : null });
      if (run) applyLatest(run);
    }
  }

  const latest = new Map<string, { job: Job; outcome: string | null }>();

  /** A state never goes back: an event of the past does not change a job that has ended. */
  function applyLatest(run: SweepRun): void {
    const state = run.job && latest.get(run.job.job_id);
    if (!state || hasEnded(run)) return;
    run.job = state.job;
    if (state.job.terminal_stage) {
      run.outcome = state.outcome;
      if (state.outcome !== null) journal.addEnd(run.combination, state.outcome);
      endOf(run);
    }
    notify();
  }

  async function submitNext(pending: SweepRun[]): Promise<void> {
    for (let run = pending.shift(); run !== undefined && !failure; run = pending.shift()) {
      while (runs.filter(isUnfinished).length >= maxRunning && !failure) await nextChange();
      if (failure) return;
      run.isSubmitting = true;
      notify();
      try {
        await submitRun(client, journal, run, deps.submit, signal);
        run.isSubmitting = false;
        notify();
        applyLatest(run);
        if (hasEnded(run) && !latest.has(run.job?.job_id ?? '')) endOf(run);
      } catch (error) {
        run.isSubmitting = false;
        if (!(error instanceof ApiError) || error.code !== 'too_many_jobs') return fail(error);
        pending.unshift(run);
        await Promise.race([nextChange(), sleep(limitRetryMs, undefined, { signal: streamSignal, ref: false })]);
      }
    }
  }

  for (const run of runs) if (hasEnded(run)) endOf(run);
  signal.addEventListener('abort', () => fail(signal.reason), { once: true });
  follow().catch((error) => {
    if (!streamSignal.aborted) fail(error);
  });

  return {
    async submitAll() {
      const pending = runs.filter(({ job }) => job === null);
      await Promise.all(Array.from({ length: concurrentSubmissions }, () => submitNext(pending)));
      if (failure) throw failure.error;
    },
    async waitForEnds() {
      while (!runs.every(hasEnded) && !failure) await nextChange();
      if (failure) throw failure.error;
      await Promise.all(ends);
    },
    stop: () => stopped.abort(),
  };
}

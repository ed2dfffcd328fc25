import { BursarError } from '../../domain/errors.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { Engine, EngineJob } from '../engine.ts';
import { coalesce } from './coalesce.ts';
import { type CommandOptions, chunked, createRunCommand, isJobName, outputOf } from './commands.ts';
import { createFinishedJobs } from './finished-jobs.ts';
import { createQueueReader, type QueueEntry } from './queue-reader.ts';
import type { Accounting } from './sacct.ts';
import { parseSbatchOutput, sbatchCommand } from './sbatch.ts';
import { checkScancel, scancelById, scancelByName } from './scancel.ts';
import { checkRelease, parsePing, pingCommand, releaseCommand } from './scontrol.ts';
import { parseScriptCheck, scriptCheckCommand } from './script-check.ts';
import type { SlurmJob } from './slurm-job.ts';
import { squeueCommand } from './squeue.ts';
import { createTraces } from './traces.ts';
import { createTurns } from './turns.ts';

export interface SlurmEngineOptions extends CommandOptions {
  accounting: Accounting;
  now?: () => number;
}

/**
 * Runs jobs through the commands of Slurm. It keeps nothing itself: a job's name in Slurm is its id in Bursar, and what
 * Slurm says is all that is known. No number of jobs makes it run more commands to follow them.
 */
export function createSlurmEngine(options: SlurmEngineOptions): Engine {
  const { now = Date.now } = options;
  const run = createRunCommand(options);
  const leftQueue = createFinishedJobs(options.accounting, run, now);
  const traces = createTraces(run, now);
  const readQueue = createQueueReader(now);
  const inTurn = createTurns();
  /** Names by id, as last observed: ids are told to `discard` without them. */
  let observed = new Map<string, string>();
  /** What was last observed to be over; and the ids of jobs that Bursar is done with, but Slurm not yet. */
  let finished: Observation[] = [];
  const forgotten = new Set<string>();
  let answeredAt: number | null = null;

  /** All jobs of Bursar's that Slurm has, by their ids, lowest first. */
  const squeue = coalesce(async (_, signal): Promise<QueueEntry[]> => {
    const queue = readQueue(outputOf('squeue', await run(squeueCommand(), signal)));
    answeredAt = now();
    traces.note(queue);
    return queue.sort((a, b) => Number(a.job.ref) - Number(b.job.ref));
  });
  const list = async (signal: AbortSignal) => (await squeue(undefined, signal)).map(({ job }) => job);

  const release = coalesce(async (asked: ReadonlyMap<string, string>[], signal) => {
    const wanted = new Map(asked.flatMap((refs) => [...refs]));
    // An id that is another job's by now is not this one; one that is not held any more needs nothing.
    const held = (await list(signal)).filter((job) => wanted.get(job.name) === job.ref && isHeld(job));
    for (const part of chunked(held)) {
      checkRelease(await run(releaseCommand(part.map(({ ref }) => ref)), signal));
    }
  });

  async function scancel(refs: readonly string[], signal: AbortSignal): Promise<void> {
    for (const part of chunked(refs)) checkScancel(await run(scancelById(part), signal));
  }

  async function submit(job: EngineJob, signal: AbortSignal): Promise<string> {
    const { jobId, command, workspace } = job;
    // An earlier submission whose answer was lost. Jobs are held, so that none of several has run.
    const [known, ...others] = (await list(signal)).filter(({ name }) => name === jobId);
    const strays = others.filter(isHeld).map(({ ref }) => ref);
    if (strays.length > 0) await scancel(strays, signal);
    if (known !== undefined) return known.ref;
    const submission = sbatchCommand(job);
    if (command.kind === 'script') {
      const check = scriptCheckCommand(workspace.directory, command.script);
      parseScriptCheck(command.script, outputOf('bash', await run(check, signal)));
    }
    return parseSbatchOutput(await run(submission, signal));
  }

  return {
    open: async () => undefined,

    async submit(job, signal) {
      if (!isJobName(job.jobId)) {
        const message = `The job id ${JSON.stringify(job.jobId)} cannot be the name of a job in Slurm`;
        throw new BursarError('job_refused', message);
      }
      return await inTurn(job.jobId, () => submit(job, signal));
    },

    release,

    async find(jobIds, signal) {
      const names = new Set(jobIds.filter(isJobName));
      if (names.size === 0) return new Map();
      const jobs = (await list(signal)).filter(({ name }) => names.has(name));
      // The lowest id of a name comes last, and stays.
      return new Map(jobs.reverse().map(({ name, ref }) => [name, ref]));
    },

    async observe(expected, signal) {
      const queue = await squeue(undefined, signal);
      observed = new Map();
      for (const { job } of queue) observed.set(job.ref, job.name);
      for (const ref of forgotten) if (!observed.has(ref)) forgotten.delete(ref);
      const missing = new Map<string, string>();
      for (const [jobId, ref] of expected) if (observed.get(ref) !== jobId) missing.set(jobId, ref);
      const current: Observation[] = [];
      for (const { observation } of queue) {
        if (observation === null) continue;
        const { kind, jobId, ref } = observation;
        // What is over under another id than the expected one was a stray, and needs no discarding any more.
        const isDone = kind === 'finished' && (forgotten.has(ref) || (expected.get(jobId) ?? ref) !== ref);
        if (!isDone) current.push(observation);
      }
      finished = current.filter(({ kind }) => kind === 'finished');
      return current.concat(await leftQueue.look(missing, signal));
    },

    trace: traces.find,

    async discard(refs, signal) {
      const unwanted = new Set(refs);
      // Only what is still held: whoever stored the id of a submission since has released it, and it is no stray.
      const jobs = (await list(signal)).filter((job) => unwanted.has(job.ref) && isHeld(job));
      const same = jobs.filter(({ ref, name }) => (observed.get(ref) ?? name) === name);
      await scancel(
        same.map(({ ref }) => ref),
        signal,
      );
    },

    async cancel(jobId, signal) {
      if (isJobName(jobId)) checkScancel(await run(scancelByName(jobId), signal));
    },

    async forget(jobIds) {
      const names = new Set(jobIds);
      for (const { jobId, ref } of finished) if (names.has(jobId)) forgotten.add(ref);
    },

    async health(signal) {
      const { ok, detail } = parsePing(await run(pingCommand(), signal));
      const age = answeredAt === null ? '' : `; squeue last answered ${Math.round((now() - answeredAt) / 1000)} s ago`;
      return { ok, detail: `${detail}${age}` };
    },

    // Slurm tells nobody: who wants to know has to ask.
    onChange: () => undefined,

    close: async () => undefined,
  };
}

const isHeld = ({ state, reason }: SlurmJob) => state === 'PENDING' && reason === 'JobHeldUser';

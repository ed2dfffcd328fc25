import type { Engine, EngineJob } from '../../src/engines/engine.ts';

export type JobOverrides = Partial<Omit<EngineJob, 'workspace'>>;

export interface EngineHarness {
  /** An open engine without jobs. */
  engine: Engine;
  /** Creates a job with an empty workspace. By default it has one core and runs `true`. */
  newJob(overrides?: JobOverrides): Promise<EngineJob>;
  /** Opens another engine on the same state, as after a crash. The earlier engine must not be used again. */
  reopen(): Promise<Engine>;
  /** Ends all processes and removes all files. */
  close(): Promise<void>;
  /** The size of a job that occupies the whole system. */
  wholeSystem: Pick<EngineJob, 'nodes' | 'coresPerNode'>;
  /** The shortest time limit that the system enforces. */
  minRuntimeSeconds: number;
  /** Changes the time limit of a job, once it runs, so that it is reached now: for a system that takes long to enforce one. */
  reachTimeLimit?(jobId: string, ref: string): Promise<void>;
  /** True if the scheduler keeps finished jobs for a while, even if they are forgotten. */
  keepsFinishedJobs?: boolean;
  /** True if the job's output is a plain file, as in Slurm: opening /dev/stderr by name then truncates it. */
  outputGoesDirectlyToFiles?: boolean;
  /** The reason reported for a job that was cancelled while it ran. Not every system knows who cancelled it. */
  cancelReason: string;
  /** True if the engine sends no change events, so that the watcher has to poll. */
  hasNoChangeEvents?: boolean;
}

/** Defines a test with a new harness. */
export type EngineTest = (title: string, body: (harness: EngineHarness) => Promise<void>) => void;

/** Releases each job right after its submission, as Bursar does when it has stored the ref. */
export function withAutomaticRelease(engine: Engine): Engine {
  return {
    ...engine,
    async submit(job, signal, options) {
      const ref = await engine.submit(job, signal, options);
      await engine.release(new Map([[job.jobId, ref]]), signal);
      return ref;
    },
  };
}

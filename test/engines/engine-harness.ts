import type { Engine, EngineJob } from '../../src/engines/engine.ts';

export type JobOverrides = Partial<Omit<EngineJob, 'workspace'>>;

export interface EngineHarness {
  /** Opened and empty. */
  engine: Engine;
  /** A job of one core with an empty workspace that runs `true`, unless told otherwise. */
  newJob(overrides?: JobOverrides): Promise<EngineJob>;
  /** Another engine, opened, over the same state, as after a crash. The one before is not used again. */
  reopen(): Promise<Engine>;
  /** Leaves nothing running and nothing on the disk. */
  close(): Promise<void>;
  /** What a job asks for that leaves no room for any other. */
  wholeSystem: Pick<EngineJob, 'nodes' | 'coresPerNode'>;
  /** The shortest time limit that the system can enforce. */
  minRuntimeSeconds: number;
  /** True when the system keeps finished jobs for a while, whoever has forgotten them. */
  keepsFinishedJobs?: boolean;
  /** True when output goes straight into files: who opens /dev/stderr by name then starts it afresh, as Slurm's users know. */
  outputGoesDirectlyToFiles?: boolean;
  /** What it says of a job that was cancelled while it ran. By whom, not every system knows. */
  cancelReason: string;
  /** True when the system tells nobody that something has changed, so that the watcher has to ask. */
  hasNoChangeEvents?: boolean;
}

/** Makes a test that has a harness of its own. */
export type EngineTest = (title: string, body: (harness: EngineHarness) => Promise<void>) => void;

/** Has the engine start what it is given at once, as Bursar does when it has stored the engine's id. */
export function withAutomaticRelease(engine: Engine): Engine {
  return {
    ...engine,
    async submit(job, signal) {
      const ref = await engine.submit(job, signal);
      await engine.release(new Map([[job.jobId, ref]]), signal);
      return ref;
    },
  };
}

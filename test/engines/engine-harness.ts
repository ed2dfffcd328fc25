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
  shortestRuntimeSeconds: number;
}

/** Makes a test that has a harness of its own. */
export type Check = (title: string, body: (harness: EngineHarness) => Promise<void>) => void;

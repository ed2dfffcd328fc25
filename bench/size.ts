/** How much is measured. */
export interface Size {
  rounds: number;
  /** How long one side is put under load in a round; at the smallest size a few requests will do. */
  seconds: number | null;
  storedJobs: number;
  fewStoredJobs: number;
  listedJobs: number;
  fileMb: number;
  /** In Slurm, beside slurmrestd. */
  queuedJobs: number;
  /** In Slurm, for one round of the watcher. */
  activeJobs: number;
  fewReaders: number;
  manyReaders: number;
  /** How long the commands of the scheduler are counted. */
  commandCountSeconds: number;
  endingJobs: number;
}

export const fullSize: Size = {
  rounds: 5,
  seconds: 3,
  storedJobs: 1_000_000,
  fewStoredJobs: 1000,
  listedJobs: 100_000,
  fileMb: 1000,
  queuedJobs: 1000,
  activeJobs: 5000,
  fewReaders: 10,
  manyReaders: 1000,
  commandCountSeconds: 10,
  endingJobs: 10,
};

/** Runs through everything in seconds. What it measures means nothing. */
export const smokeSize: Size = {
  rounds: 1,
  seconds: null,
  storedJobs: 2000,
  fewStoredJobs: 500,
  listedJobs: 3000,
  fileMb: 4,
  queuedJobs: 20,
  activeJobs: 20,
  fewReaders: 2,
  manyReaders: 20,
  commandCountSeconds: 1,
  endingJobs: 2,
};

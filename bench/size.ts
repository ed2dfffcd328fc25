/** The amount of data and load of each benchmark. */
export interface Size {
  rounds: number;
  /** Duration of the load on one side in a round; null for a few requests only. */
  seconds: number | null;
  storedJobs: number;
  fewStoredJobs: number;
  listedJobs: number;
  fileMb: number;
  /** Jobs in Slurm for the comparison with slurmrestd. */
  queuedJobs: number;
  /** Jobs in the queue of an engine, for the rounds of the watcher. */
  activeJobs: number;
  /** Jobs that are submitted in a round to an engine with that queue. */
  newJobs: number;
  /** Duration over which the processor time at rest is measured. */
  restSeconds: number;
  fewReaders: number;
  manyReaders: number;
  /** Duration over which scheduler commands are counted. */
  commandCountSeconds: number;
  endingJobs: number;
  /** Jobs that are started with and without a sandbox in a round. */
  isolatedJobs: number;
  /** Jobs that do nothing, in a round. */
  shortJobs: number;
  /** Users of the mixed load, and the jobs of each. */
  users: number;
  jobsPerUser: number;
  /** Users whose lists are read in pages, and the jobs of each. */
  pagingUsers: number;
  jobsPerPagingUser: number;
  soakSeconds: number;
  listeners: number;
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
  newJobs: 300,
  restSeconds: 10,
  fewReaders: 10,
  manyReaders: 1000,
  commandCountSeconds: 10,
  endingJobs: 10,
  isolatedJobs: 40,
  shortJobs: 150,
  users: 2000,
  jobsPerUser: 20,
  pagingUsers: 200,
  jobsPerPagingUser: 1000,
  soakSeconds: 30,
  listeners: 1000,
};

/** Runs every benchmark in seconds, to check that it works. The figures mean nothing. */
export const smokeSize: Size = {
  rounds: 1,
  seconds: null,
  storedJobs: 2000,
  fewStoredJobs: 500,
  listedJobs: 3000,
  fileMb: 4,
  queuedJobs: 20,
  activeJobs: 20,
  newJobs: 5,
  restSeconds: 0.2,
  fewReaders: 2,
  manyReaders: 20,
  commandCountSeconds: 1,
  endingJobs: 2,
  isolatedJobs: 2,
  shortJobs: 4,
  users: 10,
  jobsPerUser: 20,
  pagingUsers: 2,
  jobsPerPagingUser: 150,
  soakSeconds: 1,
  listeners: 10,
};

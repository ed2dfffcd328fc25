import type { Benchmark } from './benchmark.ts';
import { compareSlurmrestd } from './benchmarks/compare-slurmrestd.ts';
import { dispatch } from './benchmarks/dispatch.ts';
import { footprint } from './benchmarks/footprint.ts';
import { isolation } from './benchmarks/isolation.ts';
import { jobCost } from './benchmarks/job-cost.ts';
import { jobEnd } from './benchmarks/job-end.ts';
import { largeFiles } from './benchmarks/large-files.ts';
import { listChanged } from './benchmarks/list-changed.ts';
import { listUnchanged } from './benchmarks/list-unchanged.ts';
import { listeners } from './benchmarks/listeners.ts';
import { localQueue } from './benchmarks/local-queue.ts';
import { longList } from './benchmarks/long-list.ts';
import { manyStored } from './benchmarks/many-stored.ts';
import { mixedReadsBenchmark } from './benchmarks/mixed-reads.ts';
import { mixedReadsStored } from './benchmarks/mixed-reads-stored.ts';
import { notModified } from './benchmarks/not-modified.ts';
import { oneJob } from './benchmarks/one-job.ts';
import { quotas } from './benchmarks/quotas.ts';
import { randomPages } from './benchmarks/random-pages.ts';
import { schedulerCommands } from './benchmarks/scheduler-commands.ts';
import { soak } from './benchmarks/soak.ts';
import { storedLedger } from './benchmarks/stored-ledger.ts';
import { submit } from './benchmarks/submit.ts';
import { submitPostgres } from './benchmarks/submit-postgres.ts';
import { uploads } from './benchmarks/uploads.ts';
import { watcherTick } from './benchmarks/watcher-tick.ts';
import { webVitals } from './benchmarks/web-vitals.ts';

/** All benchmarks, in the order of the result table: first the load that many users make. In
 * the best cases one user sends the same requests again and again while nobody writes. */
export const benchmarks: readonly Benchmark[] = [
  mixedReadsBenchmark,
  mixedReadsStored,
  randomPages,
  longList,
  soak,
  listeners,
  uploads,
  oneJob,
  listUnchanged,
  listChanged,
  notModified,
  quotas,
  submit,
  submitPostgres,
  manyStored,
  storedLedger,
  largeFiles,
  compareSlurmrestd,
  schedulerCommands,
  dispatch,
  watcherTick,
  jobEnd,
  jobCost,
  localQueue,
  isolation,
  footprint,
  webVitals,
];

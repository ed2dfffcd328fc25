import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Engine } from '../../engines/engine.ts';
import type { Spool } from '../../files/spool/spool.ts';
import type { Workspaces } from '../../files/workspaces/workspaces.ts';
import type { ZipLimits } from '../../files/zip/zip-entries.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Db } from '../../store/database/handle.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import type { HeldLease } from '../hold-lease.ts';
import type { Logger } from '../loop.ts';

/** Dependencies of the workers of one HPC system, before its lease is acquired. */
export interface SystemDeps {
  /** For reading only. Writes go through `HeldLease.transaction`. */
  db: Db;
  system: HpcSystem;
  createEngine(): Engine;
  workspaces: Workspaces;
  spool: Spool;
  zipLimits: ZipLimits;
  /** Removes the workspace of a job in the background. */
  removeFiles(hpc: string, jobId: string): void;
  /** Files older than this cannot belong to an upload that is still in progress. */
  staleMs: number;
  /** Limits of the time between two polls of the engine. */
  minPollMs: number;
  maxPollMs: number;
  /**
   * How often all unfinished jobs are read and compared with those of the engine, to find jobs that the engine lost; 0 for
   * every poll. Other polls read only the jobs whose observations changed.
   */
  fullScanMs: number;
  /** How often the files of running jobs are measured. */
  measureMs: number;
  /** A job that the engine has not reported for this long raises an alarm. */
  missingAlarmMs: number;
  /** A job that could not be submitted for this long, because of transient errors, is reported as delayed. */
  delayAlarmMs: number;
  /** Maximum number of jobs of one user in the engine. */
  maxJobsPerUser: number;
  metrics: Pick<Metrics, 'increment' | 'setGauge'>;
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  /** The scheduler options for the jobs of a project. */
  siteOptions(project: string): object;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
  now(): number;
  log: Logger;
}

/** Dependencies of the workers of one HPC system, while this process holds its lease. */
export interface LeasedSystemDeps extends SystemDeps {
  lease: HeldLease;
  /** Refuses changes once the lease may have expired. */
  engine: Engine;
}

import type { HpcSystem } from '../domain/systems/system.ts';
import type { Engine, SiteOptions } from '../engines/engine.ts';
import type { Spool } from '../files/spool/spool.ts';
import type { Workspaces } from '../files/workspaces/workspaces.ts';
import type { ZipLimits } from '../files/zip/zip-directory.ts';
import type { Metrics } from '../metrics/registry.ts';
import type { Db } from '../store/database/tables.ts';
import type { HeldLease } from './hold-lease.ts';
import type { Log } from './log.ts';

/** An HPC system that can be taken up. */
export interface SystemDeps {
  /** For reading; what is written is written by the tenure. */
  db: Db;
  system: HpcSystem;
  createEngine(): Engine;
  workspaces: Workspaces;
  spool: Spool;
  zipLimits: ZipLimits;
  /** How old a file must be before it is certain that nobody is working on it. */
  staleMs: number;
  /** Between two looks at the engine, while there is something to wait for. */
  watchMs: number;
  /** At the most. */
  idleWatchMs: number;
  /** After how long a job that the engine does not mention raises an alarm. */
  missingAlarmMs: number;
  metrics: Pick<Metrics, 'increment' | 'setGauge'>;
  /** Where the jobs of a project go on the site. */
  siteOptions(project: string): SiteOptions;
  /** Called when something that concerns a user is in the books. */
  announce(userId: string): void;
  now(): number;
  log: Log;
}

/** What the dispatcher and the watcher of one HPC system work with, for as long as it is theirs. */
export interface LeasedSystem extends SystemDeps {
  lease: HeldLease;
  engine: Engine;
}

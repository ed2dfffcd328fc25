import { msPerDay, msPerMinute } from '../domain/units.ts';
import type { OpenRequestKind } from '../http/limits/concurrency.ts';
import type { SlowReaderLimits } from '../http/limits/slow-readers.ts';

/** Values that no site needs to change. Tests and the simulation do. */
export interface Tuning {
  /** PostgreSQL: timeout to connect, or to wait for a free connection. */
  connectTimeoutMs: number;
  /** PostgreSQL: another instance takes over the work of a crashed one after this time. */
  leaseMs: number;
  /** How often grants, periods and events that have expired are looked for. */
  periodIntervalMs: number;
  /** How often expired files, tokens and other expired data are looked for. */
  retentionIntervalMs: number;
  /** How often events that other processes have written are looked for. */
  eventIntervalMs: number;
  /** How often an idle event stream sends a comment. */
  heartbeatIntervalMs: number;
  /** A job that cannot be submitted because of transient errors is reported after this time. */
  delayAlarmMs: number;
  /** A job that its engine does not report raises an alarm after this time. */
  missingAlarmMs: number;
  /** How long the requests of a user, a token or an address are counted. */
  rateWindowMs: number;
  /** Of all users together. */
  maxOpenRequests: Record<OpenRequestKind, number>;
  slowReaders: SlowReaderLimits;
  /** Contents of a zip that unpack to more are verified only when they are unpacked for their job. */
  maxVerifiedBytes: number;
  /** DNS servers for the names in webhook URLs. Empty: those of the host. */
  nameServers: readonly string[];
  /** Timeout of one attempt to deliver an event, redirects included. */
  webhookTimeoutMs: number;
  /** The delay before each retry. A delivery fails when its last retry has failed. */
  webhookRetrySeconds: readonly number[];
  /** A webhook is disabled after this time without a successful delivery. */
  webhookDisableAfterMs: number;
}

export const defaultTuning: Tuning = {
  connectTimeoutMs: 10_000,
  leaseMs: 5000,
  periodIntervalMs: 60_000,
  retentionIntervalMs: 60_000,
  eventIntervalMs: 1000,
  heartbeatIntervalMs: 15_000,
  delayAlarmMs: 5 * msPerMinute,
  missingAlarmMs: 15 * msPerMinute,
  rateWindowMs: 10_000,
  maxOpenRequests: { upload: 1000, download: 1000, log_follower: 2000, event_listener: 5000 },
  slowReaders: { windowMs: 60_000, minBytes: 64_000, maxWaitingBytes: 256_000_000 },
  maxVerifiedBytes: 64_000_000,
  nameServers: [],
  webhookTimeoutMs: 10_000,
  webhookRetrySeconds: [5, 300, 1500, 5400, 10_800, 18_000, 14_400, 21_600, 14_400],
  webhookDisableAfterMs: 5 * msPerDay,
};

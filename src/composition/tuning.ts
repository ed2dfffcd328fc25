import { msPerDay, msPerMinute } from '../domain/units.ts';
import { defaultTimeouts } from '../store/database/database.ts';

/** Values that no site needs to change. Tests and the simulation do. */
export const defaultTuning = {
  /** PostgreSQL: timeout to connect, or to wait for a free connection. */
  connectTimeoutMs: defaultTimeouts.connectTimeoutMs,
  /** PostgreSQL: another instance takes over the work of a crashed one after this time. */
  leaseMs: 5000,
  /** Interval of the search for grants, events, tokens, files and other data that have expired. */
  expiryIntervalMs: msPerMinute,
  /** Interval of the search for events that other processes have written. */
  eventIntervalMs: 1000,
  /** Interval of the comments on an idle event stream. */
  heartbeatIntervalMs: 15_000,
  /** A job that cannot be submitted because of transient errors is reported after this time. */
  delayAlarmMs: 5 * msPerMinute,
  /** A job that its engine does not report raises an alarm after this time. */
  missingAlarmMs: 15 * msPerMinute,
  /** How long the requests of a user, a token or an address are counted. */
  rateWindowMs: 10_000,
  /** Maximum number of open requests of each kind, of all users together. */
  maxOpenRequests: { upload: 1000, download: 1000, log_follower: 2000, event_listener: 5000 },
  slowReaders: { windowMs: msPerMinute, minBytes: 64_000, maxWaitingBytes: 256_000_000 },
  /** Contents of a zip that unpack to more are verified only when they are unpacked for their job. */
  maxVerifiedBytes: 64_000_000,
  /** DNS servers for the names in webhook URLs. Empty: those of the host. */
  nameServers: [] as readonly string[],
  /** Timeout of one attempt to deliver an event, redirects included. */
  webhookTimeoutMs: 10_000,
  /** The delay before each retry. A delivery fails when its last retry has failed. */
  webhookRetrySeconds: [5, 300, 1500, 5400, 10_800, 18_000, 14_400, 21_600, 14_400],
  /** A webhook is disabled after this time without a successful delivery. */
  webhookDisableAfterMs: 5 * msPerDay,
};

export type Tuning = typeof defaultTuning;

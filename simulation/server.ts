import { createHash } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import type { Logger } from 'pino';
import { createServiceDeps } from '../src/composition/api.ts';
import type { InstanceDatabase } from '../src/composition/database.ts';
import { staleMs } from '../src/composition/database.ts';
import { createDependencies } from '../src/composition/dependencies.ts';
import type { SystemBackend } from '../src/composition/systems.ts';
import type { Tuning } from '../src/composition/tuning.ts';
import { startWorker } from '../src/composition/worker.ts';
import type { Config } from '../src/config/schema.ts';
import { BursarError } from '../src/domain/errors.ts';
import type { Engine } from '../src/engines/engine.ts';
import { createWorkspaces } from '../src/files/workspaces/workspaces.ts';
import { createMetrics } from '../src/metrics/metrics.ts';
import type { Broadcast } from '../src/services/events/event-feed.ts';
import { createEventFeed } from '../src/services/events/event-feed.ts';
import { syncProjects } from '../src/services/identity/enrolment.ts';
import type { ServiceDeps } from '../src/services/service-deps.ts';
import { connectDatabase } from '../src/store/database/database.ts';
import type { Db } from '../src/store/database/handle.ts';
import { deleteAllClaims } from '../src/store/jobs/idempotency-keys.ts';
import { releaseAllLeases } from '../src/store/systems/leases.ts';
import type { SendRequest } from '../src/webhooks/send.ts';
import { cleanUpSpool } from '../src/workers/cleanup.ts';
import { maxTimerMs } from '../src/workers/loop.ts';
import { type CallOptions, callOutside, callOutsideSync } from './faults.ts';
import { record, recordSilently } from './trace.ts';
import { currentWriter, databaseTime, type SimulatedProcess, setWriter, tasks } from './virtual-time.ts';

export interface ServerOptions {
  name: string;
  config: Config;
  tuning: Tuning;
  dataFolder: string;
  clockOffsetMs: number;
  /** Whether other servers use the same database. */
  isShared: boolean;
  createEngine(): Engine;
  sendWebhook: SendRequest;
  /** Carries hints to the other servers. */
  broadcast: Broadcast;
  /** Called when a job is changed in the engine, and when background work writes into a table for which it needs a lease. */
  onChange(process: SimulatedProcess, change: Change): void;
}

/** A call of the engine, or a write into a table. Background work needs a lease for both. */
export type Change = { method: string } | { table: string };

/** A whole server without HTTP: the real services, workers and store, in virtual time. */
export interface SimulatedServer extends SimulatedProcess {
  services: ServiceDeps;
  /** Resolves when it is killed. */
  killed: Promise<void>;
}

interface Connections {
  databases: Set<Sqlite.Database>;
  onChange: ServerOptions['onChange'];
}

const connectionsOf = new Map<SimulatedProcess, Connections>();
const leaseMs = 9000;
const engineLatencyMs: [number, number] = [1, 400];
const metrics = createMetrics('simulation');

interface StartedServer {
  process: SimulatedProcess;
  /** Never resolves if it is killed while it starts. */
  started: Promise<SimulatedServer>;
  killed: Promise<void>;
}

export function startServer(options: ServerOptions): StartedServer {
  const { name, clockOffsetMs } = options;
  const killed = Promise.withResolvers<void>();
  const databases = new Set<Sqlite.Database>();
  const process: SimulatedProcess = {
    name,
    isDead: false,
    pausedUntil: 0,
    clockOffsetMs,
    openFiles: new Set(),
    kill(place) {
      if (process.isDead) return;
      record(`is killed at ${place}`);
      process.isDead = true;
      if (currentWriter() === process) setWriter(undefined);
      // The database rolls back what a killed server has not committed.
      for (const database of databases) database.close();
      for (const file of process.openFiles) file.close();
      connectionsOf.delete(process);
      killed.resolve();
    },
  };
  connectionsOf.set(process, { databases, onChange: options.onChange });
  const started = tasks.run({ process, isRequest: false }, async () => {
    const services = await compose(options);
    record('has started');
    return Object.assign(process, {
      services,
      killed: killed.promise,
    });
  });
  return { process, started, killed: killed.promise };
}

/** The composition of main.ts, without HTTP. */
async function compose(options: ServerOptions): Promise<ServiceDeps> {
  const { config, tuning, name, sendWebhook } = options;
  const database = await openDatabase(options);
  const created = createDependencies({
    config,
    tuning,
    isolations: new Map([['sys', { inEffect: { kind: 'none', reason: '' } }]]),
    database,
    metrics,
    tracing: null,
    version: 'simulation',
    log: createLogger(),
    createBackend: () => createBackend(options),
  });
  const deps = {
    ...created,
    spool: withFaults('spool', created.spool, ['receive', 'storeForJob', 'has', 'remove', 'list'], {
      error: storageError,
    }),
    holder: name,
    resolveEndpoint: async () => [{ address: '192.0.2.1', family: 4 as const }],
    sendWebhook: (...args: Parameters<SendRequest>) =>
      callOutside('webhook', { error: () => new Error(), latencyMs: [1, 1000] }, () => sendWebhook(...args)).catch(
        (error: Error) =>
          ({ ok: false, result: 'unreachable', status: null, error: error.message, detail: '' }) as const,
      ),
  };
  await syncProjects(deps.db, config, deps.now());
  await deps.spool.open();
  await cleanUpSpool(deps.db, deps.spool, database.staleAtStartMs);
  await startWorker(deps);
  const { db, userTopic, log } = deps;
  const eventFeed = createEventFeed({ db, userTopic, pollMs: tuning.eventIntervalMs, log });
  return createServiceDeps({ ...deps, storageProblem: () => null }, eventFeed);
}

async function openDatabase({ config, dataFolder, isShared, broadcast }: ServerOptions): Promise<InstanceDatabase> {
  const db = withFaultyTransactions(connectDatabase(config.database, dataFolder));
  if (!isShared) {
    await releaseAllLeases(db);
    await deleteAllClaims(db);
  }
  return {
    db,
    pgNotify: isShared
      ? ({ ...broadcast, close: async () => undefined } as unknown as InstanceDatabase['pgNotify'])
      : undefined,
    leaseMs: isShared ? leaseMs : maxTimerMs,
    staleAtStartMs: isShared ? staleMs : 0,
    lockedFiles: [],
    close: () => db.destroy(),
  };
}

function createBackend({ dataFolder, createEngine }: ServerOptions): SystemBackend {
  const error = (detail: string) => new BursarError('unavailable', detail, { transient: true });
  const workspaces = createWorkspaces(`${dataFolder}/workspaces`);
  return {
    isolation: { kind: 'none', reason: '' },
    createEngine: () => {
      const engine = createEngine();
      const methods = ['open', 'submit', 'release', 'find', 'observe', 'readEndRecords', 'preventStart'] as const;
      const more = ['inspectMissing', 'discard', 'cancel', 'forget'] as const;
      return withFaults('engine', engine, [...methods, ...more], { error, latencyMs: engineLatencyMs });
    },
    workspaces: withFaults('workspace', workspaces, ['stage', 'measure', 'list', 'remove'], { error: storageError }),
    shell: null,
    siteOptions: () => ({}),
    maxJobsPerUser: 100,
    measureMs: 30_000,
    minPollMs: 1000,
    maxPollMs: 5000,
    fullScanMs: 0,
  };
}

const storageError = (detail: string) => new BursarError('storage_unavailable', detail, { transient: true });

/** Wraps methods, so that the plan of the history decides about each call. */
function withFaults<T extends object>(
  name: string,
  target: T,
  methods: readonly (keyof T & string)[],
  options: CallOptions,
): T {
  const wrapped = { ...target };
  for (const method of methods) {
    const original = target[method] as (...args: unknown[]) => Promise<unknown>;
    const call = (...args: unknown[]) => {
      if (name === 'engine') {
        record(`${method} ${describe(args[0])}`);
        const process = tasks.getStore()?.process;
        if (process && changingMethods.has(method)) connectionsOf.get(process)?.onChange(process, { method });
      }
      return callOutside(`${name}.${method}`, options, () => original(...args));
    };
    Object.assign(wrapped, { [method]: call });
  }
  return wrapped;
}

function describe(argument: unknown): string {
  if (argument instanceof AbortSignal) return '';
  if (argument instanceof Map) return [...argument.keys()].join(' ');
  if (Array.isArray(argument)) return argument.map(describe).join(' ');
  return typeof argument === 'object' && argument !== null && 'jobId' in argument
    ? String(argument.jobId)
    : String(argument);
}

/** A connection to a database can be lost before a transaction, or after its commit. */
function withFaultyTransactions(db: Db): Db {
  const begin = db.transaction.bind(db);
  const error = (detail: string) => new BursarError('database_unavailable', detail, { transient: true });
  db.transaction = () => {
    const builder = begin();
    const execute = builder.execute.bind(builder);
    builder.execute = (work) => callOutside('transaction', { error, delayMs: 5000 }, () => execute(work));
    return builder;
  };
  return db;
}

/** Statements of SQLite are the places at which a server is killed in a transaction. Two connections never wait for each other. */
export function simulateSqlite(): void {
  const { prepare } = Sqlite.prototype;
  const seen = new WeakSet<Sqlite.Database>();
  Sqlite.prototype.prepare = function (this: Sqlite.Database, source: string) {
    // SQLite would read the clock of this machine.
    if (!seen.has(this)) this.function('unixepoch', { varargs: true }, () => databaseTime() / 1000);
    seen.add(this);
    return prepare.call(this, source);
  } as typeof prepare;
  const memory = new Sqlite(':memory:');
  const prototype = Object.getPrototypeOf(memory.prepare('select 1'));
  memory.close();
  for (const method of ['run', 'all', 'get'] as const) {
    const original = prototype[method];
    prototype[method] = function (this: Sqlite.Statement, ...args: unknown[]) {
      const context = tasks.getStore();
      if (context === undefined) return original.apply(this, args);
      return runStatement(this, args, () => original.apply(this, args));
    };
  }
}

function runStatement(statement: Sqlite.Statement, args: unknown[], run: () => unknown): unknown {
  const context = tasks.getStore();
  const connections = context && connectionsOf.get(context.process);
  const { source, database } = statement;
  const { place, leasedTable, digest } = kindOf(source);
  connections?.databases.add(database);
  const diskError = (code: string) => () => new Sqlite.SqliteError('simulated fault of the disk', code);
  if (place === 'read') return callOutsideSync(place, diskError('SQLITE_IOERR_READ'), run);
  if (source === 'begin immediate') {
    if (currentWriter() !== undefined) throw new Error('two servers in a transaction');
    setWriter(context?.process);
  }
  recordSilently(`${digest} ${args}`);
  try {
    const result = callOutsideSync(place, diskError('SQLITE_FULL'), run);
    if (context && !context.isRequest && leasedTable) connections?.onChange(context.process, { table: leasedTable });
    return result;
  } finally {
    if (currentWriter() === context?.process && !(database.open && database.inTransaction)) setWriter(undefined);
  }
}

interface StatementKind {
  /** Of its text, for the trace. */
  digest: string;
  place: 'read' | 'write' | 'commit' | 'rollback';
  /** The table that it writes into, if background work needs a lease for it. */
  leasedTable: string | undefined;
}

function findPlace(source: string): StatementKind['place'] {
  if (source === 'commit') return 'commit';
  // It needs no disk, so it does not fail.
  if (source.startsWith('rollback')) return 'rollback';
  return /^\s*(insert|update|delete|begin|savepoint|release)/i.test(source) ? 'write' : 'read';
}

const statementKinds = new Map<string, StatementKind>();

/** Kept, because statements are many and their texts few. */
function kindOf(source: string): StatementKind {
  const known = statementKinds.get(source);
  if (known !== undefined) return known;
  const kind = {
    digest: createHash('sha256').update(source).digest('hex').slice(0, 8),
    place: findPlace(source),
    leasedTable: leasedTables.exec(source)?.[1],
  } as const;
  statementKinds.set(source, kind);
  return kind;
}

/** Warnings and errors are lines of the trace. */
function createLogger(): Logger {
  const write = (fields: { err?: Error; jobId?: string }, message: string) => {
    if (tasks.getStore()?.process.isDead) return;
    record(`logs "${message}"${fields.jobId ? ` ${fields.jobId}` : ''}${fields.err ? `: ${fields.err.message}` : ''}`);
  };
  return { info: () => undefined, warn: write, error: write } as unknown as Logger;
}

/** Background work writes into these tables only with a lease. */
const leasedTables = /^(?:insert into|update|delete from) "(jobs|accounts|periods|holds|resolutions|entries|events)"/;

/** Methods of an engine that only the holder of the lease may call. */
const changingMethods = new Set(['submit', 'release', 'preventStart', 'discard', 'cancel', 'forget']);

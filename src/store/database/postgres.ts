import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import {
  type CompiledQuery,
  Kysely,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
  sql,
} from 'kysely';
import type Pg from 'pg';
import type { PostgresAddress } from '../../config/database-url.ts';
import { BursarError, storageUnavailable } from '../../domain/errors.ts';
import { postgresDialect } from './dialect.ts';
import { type DatabaseObserver, type Db, noObserver } from './handle.ts';
import { columnNames } from './prepared.ts';
import type { Tables } from './tables.ts';

export interface PostgresSettings {
  address: PostgresAddress;
  /** The size of the pool. */
  connections: number;
  /** To connect, or to wait for a free connection. */
  connectTimeoutMs: number;
  /** Of one statement, waits for locks included. 0 for no limit. */
  statementTimeoutMs: number;
}

/** For people who read the list of connections. */
const processName = `bursar ${hostname()} ${process.pid}`.slice(0, 63);

/** Added to the server's own time limit: the client gives up later, in case the server is gone. */
const networkGraceMs = 5000;

/** Between two statements a transaction waits only for the network. */
const maxIdleInTransactionMs = 5000;

export function openPostgres(settings: PostgresSettings, observer: DatabaseObserver = noObserver): Db {
  const context: ClientContext = { names: new Map(), diskFailure: undefined, observer };
  let openPool: Pg.Pool | undefined;
  const pool = async () => {
    openPool = await createPgPool(settings);
    return toKyselyPool(openPool, context);
  };
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: [columnNames] });
  const backend = {
    dialect: postgresDialect,
    async run<Row>(handle: Kysely<Tables>, query: CompiledQuery<Row>) {
      if (!context.names.has(query.sql)) context.names.set(query.sql, `bursar_${context.names.size + 1}`);
      return (await handle.executeQuery(query)).rows;
    },
    poolStatus() {
      if (openPool === undefined) return undefined;
      const { totalCount, idleCount: idle, waitingCount: waiting } = openPool;
      return { idle, busy: totalCount - idle, waiting };
    },
    lastWriteFailure: () => context.diskFailure,
    async probeWrite(handle: Kysely<Tables>) {
      // Other writes may fit into the files as they are. A new table needs space on the disk.
      const probe = sql`create temporary table storage_probe on commit drop as
        select repeat('x', 1000) as filler from generate_series(1, 64)`;
      await handle.transaction().execute((transaction) => probe.execute(transaction));
      context.diskFailure = undefined;
    },
  };
  return Object.assign(kysely, { backend });
}

/** Shared by the connections of a pool. */
interface ClientContext {
  /** Names of prepared statements by their SQL. The server parses a named statement once for each connection. */
  names: Map<string, string>;
  /** The error of the last write that failed because the disk of the server was full. */
  diskFailure: BursarError | undefined;
  observer: DatabaseObserver;
}

/** A single connection outside the pool, for LISTEN. The caller ends it. */
export async function openClient(settings: PostgresSettings): Promise<Pg.Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(poolConfig(settings, pg));
  // An error also ends the connection, and callers listen for `end`. An unhandled `error` would end the process.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Kysely calls this at the first query, so that SQLite sites never load the driver. */
async function createPgPool(settings: PostgresSettings): Promise<Pg.Pool> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool(poolConfig(settings, pg));
  // The pool has already dropped an idle connection that failed. An unhandled `error` would end the process.
  pool.on('error', () => undefined);
  // A connection in use: its current or next query fails and reports the error.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

function toKyselyPool(pool: Pg.Pool, context: ClientContext): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      const startedAt = performance.now();
      try {
        return wrapClient(await pool.connect(), context);
      } catch (error) {
        throw toBursarError(error);
      } finally {
        context.observer.onOperation('acquire', performance.now() - startedAt);
      }
    },
  };
}

function poolConfig({ address, ...settings }: PostgresSettings, pg: typeof Pg): Pg.PoolConfig {
  const { host, port, user, password, database } = address;
  // 0 for no limit.
  const unlessUnlimited = (ms: number) => (settings.statementTimeoutMs === 0 ? 0 : ms);
  return {
    host,
    port,
    database,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ssl: tlsOptions(address),
    max: settings.connections,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    keepAlive: true,
    // Shown in pg_stat_activity.
    application_name: processName,
    // The server notices soon when the machine of an instance is gone, and frees its locks.
    options: '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3',
    statement_timeout: settings.statementTimeoutMs,
    // An instance that is stopped in the middle of a transaction must not keep its locks.
    idle_in_transaction_session_timeout: unlessUnlimited(maxIdleInTransactionMs),
    query_timeout: unlessUnlimited(settings.statementTimeoutMs + networkGraceMs),
    types: { getTypeParser: (type, format) => numberParser(type) ?? pg.types.getTypeParser(type, format) },
  };
}

const bigint = 20;
const numeric = 1700;

/** The driver returns bigint and numeric as text. Ids, times and amounts, and their sums, are safe integers. */
// biome-ignore lint/suspicious/noExplicitAny: the driver types its parsers as any
function numberParser(type: number): any {
  return type === bigint || type === numeric ? Number : undefined;
}

function tlsOptions({ sslmode, sslrootcert }: PostgresAddress): Pg.PoolConfig['ssl'] {
  if (sslmode === 'disable') return false;
  const ca = sslrootcert === undefined ? {} : { ca: readCertificates(sslrootcert) };
  if (sslmode === 'require' && sslrootcert === undefined) return { rejectUnauthorized: false };
  return sslmode === 'verify-full' ? ca : { ...ca, checkServerIdentity: () => undefined };
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const message = `Cannot read sslrootcert of database.url: ${(cause as Error).message}`;
    throw new BursarError('invalid_config', message, { cause });
  }
}

/** Translates errors into Bursar's, and keeps a lost connection from going back to the pool. */
function wrapClient(client: Pg.PoolClient, context: ClientContext): PostgresPoolClient {
  const { names, observer } = context;
  let isLost = false;
  let transactionStartedAt: number | undefined;

  function observe(text: string, startedAt: number): void {
    const endedAt = performance.now();
    if (text.startsWith('begin') || text.startsWith('start transaction')) transactionStartedAt = startedAt;
    else if (transactionStartedAt === undefined) observer.onOperation('statement', endedAt - startedAt);
    else if (text === 'commit' || text === 'rollback') {
      if (text === 'commit') observer.onOperation('commit', endedAt - startedAt);
      observer.onOperation('transaction', endedAt - transactionStartedAt);
      transactionStartedAt = undefined;
    }
  }

  async function query(text: string, values: readonly unknown[]): Promise<unknown> {
    // A lost connection has rolled back. The caller should see the first error, not that of the rollback.
    if (isLost && text === 'rollback') return { command: 'ROLLBACK', rowCount: 0, rows: [] };
    const startedAt = performance.now();
    try {
      const name = names.get(text);
      const config = { text, values: [...values], ...(name === undefined ? {} : { name }) };
      return (await client.query(config)) as PostgresQueryResult<unknown>;
    } catch (error) {
      isLost ||= !isOrdinaryError(error);
      const translated = toBursarError(error);
      if (translated instanceof BursarError && translated.code === 'storage_unavailable')
        context.diskFailure = translated;
      throw translated;
    } finally {
      observe(text, startedAt);
    }
  }
  return {
    query: query as PostgresPoolClient['query'],
    release: (destroy) => client.release(destroy === true || isLost),
  };
}

/** The fields of a server error that classify it. */
interface ServerError {
  severity: string;
  code: string;
}

/** Classes and codes of transient errors: out of resources, timeouts, a standby that has not been promoted. */
const transientCodes = ['53', '57', '58', '08', '25006', '25P03', '55P03'];

const diskFull = '53100';

/** A character that the encoding of the database lacks: the only one in UTF-8 is NUL. */
const invalidCharacter = '22021';

/** Whether the connection stays usable after an error. Otherwise it is lost or in an unknown state. */
function isOrdinaryError(error: unknown): error is ServerError {
  const { severity, code } = error as Partial<ServerError>;
  return typeof code === 'string' && typeof severity === 'string' && severity !== 'FATAL' && severity !== 'PANIC';
}

/** Turns transient errors into `database_unavailable` and leaves unknown ones unchanged. */
function toBursarError(error: unknown): unknown {
  if (error instanceof BursarError) return error;
  if (isOrdinaryError(error)) {
    if (error.code === invalidCharacter) {
      const message = 'A text contains a NUL character, which cannot be stored. Remove it.';
      return new BursarError('bad_request', message, { cause: error });
    }
    // The server has rolled the transaction back. If it cannot write even that, it closes the connection.
    if (error.code === diskFull) return storageUnavailable(diskFull, error);
    if (!transientCodes.some((code) => error.code.startsWith(code))) return error;
  }
  const message = 'The database is unreachable or too slow. Try again in a moment.';
  return new BursarError('database_unavailable', message, { cause: error, transient: true });
}

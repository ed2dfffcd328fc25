import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type Pg from 'pg';
import type { PostgresAddress } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import { isConnectionLost, toBursarError } from './postgres-errors.ts';
import { nameOf } from './prepared.ts';

export interface PostgresSettings {
  address: PostgresAddress;
  /** The most connections at a time. */
  connections: number;
  connectTimeoutMs: number;
  /** 0 for none. */
  statementTimeoutMs: number;
}

export const processName = `bursar ${hostname()} ${process.pid}`.slice(0, 63);

/** Longer than the server needs to give up by itself: this is for a server that is not there any more. */
const networkGraceMs = 5000;

/** Between two statements of a transaction nothing is waited for but the other side of the line. */
const longestPauseMs = 5000;

/** A connection of its own, for whoever listens. The caller ends it. */
export async function openClient(settings: PostgresSettings): Promise<Pg.Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(poolConfig(settings, pg));
  // An error also ends the connection, and that is what is listened for.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** A pool for Kysely. The driver is loaded when the first query is made, so that SQLite does not wait for it. */
export async function createPgPool(settings: PostgresSettings): Promise<PostgresPool> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool(poolConfig(settings, pg));
  // Errors of idle connections: the pool has dropped them, and nothing is lost. Unheard they would end the process.
  pool.on('error', () => undefined);
  // The same for connections in use: the query that is under way, or the next one, fails and tells.
  pool.on('connect', (client) => client.on('error', () => undefined));
  return {
    Client: pg.Client as unknown as NonNullable<PostgresPool['Client']>,
    options: pool.options,
    end: () => pool.end(),
    connect: async () => {
      try {
        return guarded(await pool.connect());
      } catch (error) {
        throw toBursarError(error);
      }
    },
  };
}

function poolConfig({ address, ...settings }: PostgresSettings, pg: typeof Pg): Pg.PoolConfig {
  const { host, port, user, password, database } = address;
  const limits =
    settings.statementTimeoutMs === 0
      ? {}
      : {
          statement_timeout: settings.statementTimeoutMs,
          // A Bursar that is stopped in the middle must not keep its locks from the others.
          idle_in_transaction_session_timeout: longestPauseMs,
          query_timeout: settings.statementTimeoutMs + networkGraceMs,
        };
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
    // So that the server's own views tell one Bursar from the other.
    application_name: processName,
    // So that the server soon misses a Bursar whose machine is gone, and gives up its locks.
    options: '-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3',
    ...limits,
    types: { getTypeParser: (type, format) => numberParser(type) ?? pg.types.getTypeParser(type, format) },
  };
}

const bigint = 20;
const numeric = 1700;

/** Record numbers, times and amounts are whole numbers that JavaScript counts exactly; sums of them come as numeric. */
// biome-ignore lint/suspicious/noExplicitAny: the parsers of the driver are typed so
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
    throw new BursarError('invalid_config', `Cannot read sslrootcert of database.url: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/** A connection that tells its troubles in our words, and does not go back to the pool when it is lost. */
function guarded(client: Pg.PoolClient): PostgresPoolClient {
  let lost = false;
  async function query(text: string, values: readonly unknown[]): Promise<unknown> {
    // A connection that is gone has rolled back; what happened before is what the caller should hear of.
    if (lost && text === 'rollback') return { command: 'ROLLBACK', rowCount: 0, rows: [] };
    try {
      const name = nameOf(text);
      const query = { text, values: [...values], ...(name === undefined ? {} : { name }) };
      return (await client.query(query)) as PostgresQueryResult<unknown>;
    } catch (error) {
      lost ||= isConnectionLost(error);
      throw toBursarError(error);
    }
  }
  return {
    query: query as PostgresPoolClient['query'],
    release: (destroy) => client.release(destroy === true || lost),
  };
}

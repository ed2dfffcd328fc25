import { chmodSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import Sqlite, { type Database, type Statement } from 'better-sqlite3';
import {
  type CompiledQuery,
  type DatabaseConnection,
  DeleteQueryNode,
  type Driver,
  InsertQueryNode,
  Kysely,
  type QueryResult,
  RawNode,
  SelectQueryNode,
  SqliteAdapter,
  SqliteDialect,
  SqliteIntrospector,
  SqliteQueryCompiler,
  UpdateQueryNode,
} from 'kysely';
import { LRUCache } from 'lru-cache';
import { requirePrivate } from '../../config/private-file.ts';
import { BursarError } from '../../domain/errors.ts';
import { sqliteDialect } from './dialect.ts';
import { createGroupWriter, type GroupMember, type GroupWriter, withBursarErrors } from './group-commit.ts';
import { type Backend, type DatabaseObserver, type Db, noObserver } from './handle.ts';
import { columnNames } from './prepared.ts';
import type { Tables } from './tables.ts';

type RunStatement = (query: Pick<CompiledQuery, 'sql' | 'parameters'>) => QueryResult<unknown>;

/** Two connections to one file. */
interface Connections {
  writer: Database;
  reader: Database;
  groups: GroupWriter;
  /** Runs a statement on the reader, which sees only committed data. */
  read: RunStatement;
  /** Runs a statement in the open transaction of the writer. */
  write: RunStatement;
  /** Runs a statement on the writer outside a transaction. */
  writeOutsideTransaction: RunStatement;
  observer: DatabaseObserver;
}

/** Opens a SQLite file, and creates it where there is none. Several processes may have it open. */
export function openSqlite(file: string, observer: DatabaseObserver = noObserver): Db {
  const { writer, reader } = openFile(file);
  const runOnReader = statementRunner(reader);
  const runOnWriter = statementRunner(writer);
  const groups = createGroupWriter(writer, observer);
  const connections: Connections = {
    writer,
    reader,
    groups,
    read: (query) => {
      const startedAt = performance.now();
      const result = withBursarErrors(() => runOnReader(query));
      observer.onOperation('statement', performance.now() - startedAt);
      return result;
    },
    write: (query) => groups.run(() => runOnWriter(query)),
    writeOutsideTransaction: runOnWriter,
    observer,
  };
  const dialect = {
    createAdapter: () => new ConcurrentAdapter(),
    createDriver: () => createDriver(connections),
    createIntrospector: (db: Kysely<unknown>) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
  const kysely = new Kysely<Tables>({ dialect, plugins: [columnNames] });
  return Object.assign(kysely, { backend: { ...sqliteBackend(connections), openReader: () => openReader(file) } });
}

/** Opens a connection that only reads, with the transactions of SQLite: each sees the database as of its first read. */
function openReader(file: string): Db {
  const database = new Sqlite(file, { readonly: true });
  database.pragma('busy_timeout = 10000');
  const kysely = new Kysely<Tables>({ dialect: new SqliteDialect({ database }), plugins: [columnNames] });
  const backend: Backend = {
    dialect: sqliteDialect,
    run: async (handle, query) => (await handle.executeQuery(query)).rows,
    lastWriteFailure: () => undefined,
    probeWrite: async () => undefined,
  };
  return Object.assign(kysely, { backend });
}

function openFile(file: string): { writer: Database; reader: Database } {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    const writer = new Sqlite(file);
    makePrivate(file);
    writer.pragma('journal_mode = WAL');
    // Without FULL, WAL mode does not sync at commit: a 201 could be lost with the power.
    writer.pragma('synchronous = FULL');
    // 16 MB. A checkpoint syncs both files, and a job writes several pages: the default of 1,000 pages is soon reached.
    writer.pragma('wal_autocheckpoint = 4000');
    writer.pragma('foreign_keys = ON');
    // Otherwise every savepoint creates and removes a temporary file.
    writer.pragma('temp_store = MEMORY');
    writer.pragma('busy_timeout = 10000');
    const reader = new Sqlite(file, { readonly: true });
    reader.pragma('busy_timeout = 10000');
    return { writer, reader };
  } catch (cause) {
    if (cause instanceof BursarError) throw cause;
    throw new BursarError(
      'invalid_config',
      `Cannot open the database ${file}: ${(cause as Error).message}. Check that it is a database of Bursar, and that the ` +
        'user that Bursar runs as can write to the file and to its folder.',
      { cause },
    );
  }
}

/**
 * The database has the hashes of tokens and the jobs of everybody. SQLite gives its other files the mode of the database.
 * A file of another user is refused if everybody has access; a group is accepted, as on a mounted volume.
 */
function makePrivate(file: string): void {
  for (const path of ['', '-wal', '-shm'].map((suffix) => `${file}${suffix}`)) {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined || (stats.mode & 0o077) === 0) continue;
    if (stats.uid === process.geteuid?.()) chmodSync(path, 0o600);
    else requirePrivate(path, stats.mode, `have access to ${path}`);
  }
}

/**
 * Runs compiled queries without Kysely's executor. SQLite answers synchronously, and the executor's promises take longer
 * than most statements. Only a write outside a transaction goes through Kysely, which begins one for it.
 */
function sqliteBackend({ read, write, groups }: Connections): Backend {
  return {
    dialect: sqliteDialect,
    async run<Row>(handle: Kysely<Tables>, query: CompiledQuery<Row>) {
      if (handle.isTransaction) return columnNames.toRows<Row>(write(query).rows);
      if (isSelect(query)) return columnNames.toRows<Row>(read(query).rows);
      return (await handle.executeQuery(query)).rows;
    },
    lastWriteFailure: groups.lastFailure,
    // After a failure every transaction writes.
    probeWrite: (handle) => handle.transaction().execute(async () => undefined),
  };
}

/** Kysely would hand out one connection at a time. The group writer already decides who may write. */
class ConcurrentAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** The writer runs transactions and single writes, several to a commit. The reader never waits for a transaction. */
function createDriver(connections: Connections): Driver {
  return {
    init: async () => undefined,
    acquireConnection: async () => new ReaderWriterConnection(connections),
    releaseConnection: async () => undefined,
    beginTransaction: (connection) => (connection as ReaderWriterConnection).begin(),
    commitTransaction: (connection) => (connection as ReaderWriterConnection).end('commit'),
    rollbackTransaction: (connection) => (connection as ReaderWriterConnection).end('rollback'),
    async destroy() {
      connections.groups.close();
      connections.reader.close();
      connections.writer.close();
    },
  };
}

class ReaderWriterConnection implements DatabaseConnection {
  readonly #connections: Connections;
  /** Set while this connection is in a transaction. */
  #member: GroupMember | undefined;
  #beganAt = 0;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { read, write, writeOutsideTransaction, groups } = this.#connections;
    if (this.#member !== undefined) return write(query) as QueryResult<R>;
    if (isSelect(query)) return read(query) as QueryResult<R>;
    if (!changesRows(query))
      return (await groups.runOutsideTransaction(() => writeOutsideTransaction(query))) as QueryResult<R>;
    await this.begin();
    try {
      const result = write(query) as QueryResult<R>;
      await this.end('commit');
      return result;
    } catch (error) {
      await this.end('rollback');
      throw error;
    }
  }

  streamQuery(): never {
    throw new Error('queries are not streamed');
  }

  async begin(): Promise<void> {
    const { groups, observer } = this.#connections;
    const startedAt = performance.now();
    this.#member = await groups.begin();
    this.#beganAt = performance.now();
    observer.onOperation('acquire', this.#beganAt - startedAt);
  }

  /** After a commit that failed there is nothing left to roll back. */
  async end(how: 'commit' | 'rollback'): Promise<void> {
    const member = this.#member;
    this.#member = undefined;
    if (member === undefined) return;
    try {
      await member[how]();
    } finally {
      this.#connections.observer.onOperation('transaction', performance.now() - this.#beganAt);
    }
  }
}

/** Also one that is written as text: on the writer it would wait for transactions, and end the group of the next commit. */
function isSelect({ query, sql }: CompiledQuery): boolean {
  return SelectQueryNode.is(query) || (RawNode.is(query) && /^\s*(select|with recursive)\b/i.test(sql));
}

/** Other statements, such as `vacuum`, cannot run in a transaction. */
function changesRows({ query }: CompiledQuery): boolean {
  return InsertQueryNode.is(query) || UpdateQueryNode.is(query) || DeleteQueryNode.is(query);
}

const maxPreparedStatements = 500;

/** Runs statements and keeps them prepared: preparing most of them takes longer than running them. */
function statementRunner(database: Database): RunStatement {
  const statements = new LRUCache<string, Statement>({ max: maxPreparedStatements });
  return ({ sql, parameters }) => {
    let statement = statements.get(sql);
    if (statement === undefined) {
      statement = database.prepare(sql);
      statements.set(sql, statement);
    }
    if (statement.reader) return { rows: statement.all(parameters) };
    const { changes, lastInsertRowid } = statement.run(parameters);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  };
}

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
  type SelectModifierNode,
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
import { createGroupWriter, type GroupMember, withBursarErrors } from './group-commit.ts';
import { type Backend, type DatabaseObserver, type Db, noObserver } from './handle.ts';
import { columnNames } from './prepared.ts';
import type { Tables } from './tables.ts';

/** How long a statement waits for a lock of another process. */
const lockTimeoutMs = 10_000;

type RunStatement = (query: Pick<CompiledQuery, 'sql' | 'parameters'>) => QueryResult<unknown>;

/** Opens a SQLite file, and creates it where there is none. Several processes may have it open. */
export function openSqlite(file: string, observer: DatabaseObserver = noObserver): Db {
  const connections = openConnections(file, observer);
  const dialect = {
    createAdapter: () => new ConcurrentAdapter(),
    createDriver: () => createDriver(connections),
    createIntrospector: (db: Kysely<unknown>) => new SqliteIntrospector(db),
    createQueryCompiler: () => new Compiler(),
  };
  const kysely = new Kysely<Tables>({ dialect, plugins: [columnNames] });
  return Object.assign(kysely, { backend: { ...sqliteBackend(connections), openReader: () => openReader(file) } });
}

type Connections = ReturnType<typeof openConnections>;

/** Opens two connections to one file. */
function openConnections(file: string, observer: DatabaseObserver) {
  const { writer, reader } = openFile(file);
  const runOnReader = statementRunner(reader);
  const runOnWriter = statementRunner(writer);
  const groups = createGroupWriter(writer, observer);
  /** Runs a statement on the reader, which sees only committed data. */
  const read: RunStatement = (query) => {
    const startedAt = performance.now();
    const result = withBursarErrors(() => runOnReader(query));
    observer.onOperation('statement', performance.now() - startedAt);
    return result;
  };
  /** Runs a statement in the open transaction of the writer. */
  const write: RunStatement = (query) => groups.run(() => runOnWriter(query));
  const writeOutsideTransaction = (query: CompiledQuery) => groups.runOutsideTransaction(() => runOnWriter(query));
  const close = () => {
    groups.close();
    reader.close();
    writer.close();
  };
  return { groups, observer, read, write, writeOutsideTransaction, close };
}

/** Opens a connection that only reads, with the transactions of SQLite: each sees the database as of its first read. */
function openReader(file: string): Db {
  const database = new Sqlite(file, { readonly: true, timeout: lockTimeoutMs });
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
    const writer = new Sqlite(file, { timeout: lockTimeoutMs });
    makePrivate(file);
    writer.pragma('journal_mode = WAL');
    // Without FULL, WAL mode does not sync at commit: a 201 could be lost with the power.
    writer.pragma('synchronous = FULL');
    // 16 MB. A checkpoint syncs both files, and a job writes several pages: the default of 1,000 pages is soon reached.
    writer.pragma('wal_autocheckpoint = 4000');
    writer.pragma('foreign_keys = ON');
    // Otherwise every savepoint creates and removes a temporary file.
    writer.pragma('temp_store = MEMORY');
    return { writer, reader: new Sqlite(file, { readonly: true, timeout: lockTimeoutMs }) };
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

/** Omits row locks such as `for update`: a transaction of SQLite locks the whole database. */
class Compiler extends SqliteQueryCompiler {
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (node.modifier === 'Distinct') super.visitSelectModifier(node);
  }
}

/** The writer runs transactions and single writes, several to a commit. The reader never waits for a transaction. */
function createDriver(connections: Connections): Driver {
  return {
    init: async () => undefined,
    acquireConnection: async () => createConnection(connections),
    releaseConnection: async () => undefined,
    beginTransaction: (connection) => (connection as Connection).begin(),
    commitTransaction: (connection) => (connection as Connection).end('commit'),
    rollbackTransaction: (connection) => (connection as Connection).end('rollback'),
    destroy: async () => connections.close(),
  };
}

interface Connection extends DatabaseConnection {
  begin(): Promise<void>;
  /** After a commit that failed there is nothing left to roll back. */
  end(how: 'commit' | 'rollback'): Promise<void>;
}

function createConnection({ groups, observer, read, write, writeOutsideTransaction }: Connections): Connection {
  /** Set while this connection is in a transaction. */
  let member: GroupMember | undefined;
  let beganAt = 0;

  async function begin(): Promise<void> {
    const startedAt = performance.now();
    member = await groups.begin();
    beganAt = performance.now();
    observer.onOperation('acquire', beganAt - startedAt);
  }

  async function end(how: 'commit' | 'rollback'): Promise<void> {
    const ending = member;
    member = undefined;
    if (ending === undefined) return;
    try {
      await ending[how]();
    } finally {
      observer.onOperation('transaction', performance.now() - beganAt);
    }
  }

  async function executeQuery(query: CompiledQuery): Promise<QueryResult<unknown>> {
    if (member !== undefined) return write(query);
    if (isSelect(query)) return read(query);
    if (!changesRows(query)) return await writeOutsideTransaction(query);
    await begin();
    try {
      const result = write(query);
      await end('commit');
      return result;
    } catch (error) {
      await end('rollback');
      throw error;
    }
  }

  function streamQuery(): never {
    throw new Error('queries are not streamed');
  }

  return { begin, end, executeQuery: executeQuery as Connection['executeQuery'], streamQuery };
}

/**
 * A query that is written as SQL counts too: on the writer it would wait for transactions, and end the group of the next
 * commit. No SQL of Bursar that begins with `with` writes.
 */
function isSelect({ query, sql }: CompiledQuery): boolean {
  return SelectQueryNode.is(query) || (RawNode.is(query) && /^\s*(select|with)\b/i.test(sql));
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

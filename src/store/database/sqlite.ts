import type { Database, Statement } from 'better-sqlite3';
import {
  type CompiledQuery,
  type DatabaseConnection,
  DeleteQueryNode,
  type Driver,
  InsertQueryNode,
  type QueryResult,
  SelectQueryNode,
  SqliteAdapter,
  SqliteDialect,
  UpdateQueryNode,
} from 'kysely';
import type { RunStatement } from './direct.ts';
import { createSharedWriter, type Share, type SharedWriter } from './group-commit.ts';

/** Two handles on one SQLite file, and what runs statements on each. */
interface Handles {
  writer: Database;
  reader: Database;
  read: RunStatement;
  /** For who has a turn only. */
  write: RunStatement;
  /** For what cannot be in a transaction. */
  runAlone: RunStatement;
  /** Called after every commit. */
  onCommit(): void;
}

/**
 * SQLite by two connections. One writes: transactions, and all that is not a select, one after the other, with one commit
 * for several of them. The other one reads: it sees what is committed, and never waits for a transaction that is under way.
 */
export class ReaderAndWriter extends SqliteDialect {
  readonly #handles: Handles;

  constructor(handles: Handles) {
    super({ database: handles.writer });
    this.#handles = handles;
  }

  override createDriver(): Driver {
    return new ReaderAndWriterDriver(this.#handles);
  }

  override createAdapter(): SqliteAdapter {
    return new SharedAdapter();
  }
}

/** Who may go on is decided here, statement by statement, and not by handing out one connection at a time. */
class SharedAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

class ReaderAndWriterDriver implements Driver {
  readonly #handles: Handles;
  readonly #writer: SharedWriter;

  constructor(handles: Handles) {
    this.#handles = handles;
    this.#writer = createSharedWriter(handles.writer, handles.onCommit);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<Connection> {
    return new Connection(this.#handles, this.#writer);
  }

  async releaseConnection(): Promise<void> {}

  async beginTransaction(connection: Connection): Promise<void> {
    await connection.begin();
  }

  async commitTransaction(connection: Connection): Promise<void> {
    await connection.end('keep');
  }

  async rollbackTransaction(connection: Connection): Promise<void> {
    await connection.end('undo');
  }

  async destroy(): Promise<void> {
    this.#writer.close();
    this.#handles.reader.close();
    this.#handles.writer.close();
  }
}

class Connection implements DatabaseConnection {
  readonly #handles: Handles;
  readonly #writer: SharedWriter;
  /** While it is in a transaction. */
  #share: Share | undefined;

  constructor(handles: Handles, writer: SharedWriter) {
    this.#handles = handles;
    this.#writer = writer;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { read, write, runAlone } = this.#handles;
    if (this.#share !== undefined) return write(query) as QueryResult<R>;
    if (SelectQueryNode.is(query.query)) return read(query) as QueryResult<R>;
    if (!changesRows(query)) return (await this.#writer.alone(() => runAlone(query))) as QueryResult<R>;
    await this.begin();
    try {
      const result = write(query) as QueryResult<R>;
      await this.end('keep');
      return result;
    } catch (error) {
      await this.end('undo');
      throw error;
    }
  }

  async *streamQuery<R>({ sql, parameters }: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    // A statement of its own: one that is being stepped through cannot be used for anything else.
    for (const row of this.#handles.reader.prepare(sql).iterate(parameters)) yield { rows: [row as R] };
  }

  async begin(): Promise<void> {
    this.#share = await this.#writer.begin();
  }

  /** What failed to be kept is undone already. */
  async end(how: 'keep' | 'undo'): Promise<void> {
    const share = this.#share;
    this.#share = undefined;
    await share?.[how]();
  }
}

/** Others, such as `vacuum`, may not run in a transaction. */
function changesRows({ query }: CompiledQuery): boolean {
  return InsertQueryNode.is(query) || UpdateQueryNode.is(query) || DeleteQueryNode.is(query);
}

const mostStatements = 500;

/**
 * Runs statements in a transaction. With one that fails SQLite may take it back, for a full disk perhaps: what came then
 * would be done by itself, for good.
 */
export function inTransactionOnly(database: Database, run: RunStatement): RunStatement {
  let hasFailed = false;
  return (query) => {
    if (hasFailed && !database.inTransaction) throw new Error('SQLite has taken the transaction back');
    hasFailed = true;
    const result = run(query);
    hasFailed = false;
    return result;
  };
}

/** Runs statements, each prepared once: preparing most of them takes longer than running them. */
export function statementsOf(database: Database): RunStatement {
  const prepared = new Map<string, Statement>();

  function statementOf(text: string): Statement {
    const known = prepared.get(text);
    if (known !== undefined) return known;
    const statement = database.prepare(text);
    // The one that was prepared first has to go; those that are in use are soon back.
    const [oldest] = prepared.keys();
    if (prepared.size >= mostStatements && oldest !== undefined) prepared.delete(oldest);
    prepared.set(text, statement);
    return statement;
  }

  return ({ sql, parameters }) => {
    const statement = statementOf(sql);
    if (statement.reader) return { rows: statement.all(parameters) };
    const { changes, lastInsertRowid } = statement.run(parameters);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  };
}

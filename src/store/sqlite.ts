import type { Database, Statement } from 'better-sqlite3';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  SelectQueryNode,
  SqliteAdapter,
  SqliteDialect,
} from 'kysely';

/** Two handles on one SQLite file. */
interface Handles {
  writer: Database;
  reader: Database;
  /** Called after every write. */
  onWrite(): void;
}

/**
 * SQLite by two connections. One writes: transactions, and all that is not a select, one after the other. The other one
 * reads: it sees what is committed, and never waits for a transaction that is under way.
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
  readonly #write: RunStatement;
  readonly #read: RunStatement;
  readonly #turns = createTurns();

  constructor(handles: Handles) {
    this.#handles = handles;
    const write = statementsOf(handles.writer);
    this.#write = (query) => {
      const result = write(query);
      handles.onWrite();
      return result;
    };
    this.#read = statementsOf(handles.reader);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<Connection> {
    return new Connection(this.#read, this.#write, this.#turns, this.#handles.reader);
  }

  async releaseConnection(): Promise<void> {}

  async beginTransaction(connection: Connection): Promise<void> {
    await connection.begin();
  }

  async commitTransaction(connection: Connection): Promise<void> {
    connection.end('commit');
  }

  async rollbackTransaction(connection: Connection): Promise<void> {
    connection.end('rollback');
  }

  async destroy(): Promise<void> {
    this.#handles.reader.close();
    this.#handles.writer.close();
  }
}

class Connection implements DatabaseConnection {
  readonly #read: RunStatement;
  readonly #write: RunStatement;
  readonly #turns: Turns;
  readonly #reader: Database;
  /** Ends its turn as the writer, while it has one. */
  #endTurn: (() => void) | undefined;

  constructor(read: RunStatement, write: RunStatement, turns: Turns, reader: Database) {
    this.#read = read;
    this.#write = write;
    this.#turns = turns;
    this.#reader = reader;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.#endTurn !== undefined) return this.#write(query) as QueryResult<R>;
    if (SelectQueryNode.is(query.query)) return this.#read(query) as QueryResult<R>;
    const endTurn = await this.#turns();
    try {
      return this.#write(query) as QueryResult<R>;
    } finally {
      endTurn();
    }
  }

  async *streamQuery<R>({ sql, parameters }: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
    // A statement of its own: one that is being stepped through cannot be used for anything else.
    for (const row of this.#reader.prepare(sql).iterate(parameters)) yield { rows: [row as R] };
  }

  /**
   * Takes the lock for writing at once. All transactions write; one that had read first could find that another process
   * has written since, and would fail without anybody's fault.
   */
  async begin(): Promise<void> {
    const endTurn = await this.#turns();
    try {
      this.#write(CompiledQuery.raw('begin immediate'));
      this.#endTurn = endTurn;
    } catch (error) {
      endTurn();
      throw error;
    }
  }

  /** A commit that fails leaves the transaction open: it is rolled back next. */
  end(how: 'commit' | 'rollback'): void {
    try {
      this.#write(CompiledQuery.raw(how));
    } catch (error) {
      if (how === 'commit') throw error;
    }
    this.#endTurn?.();
    this.#endTurn = undefined;
  }
}

type Turns = () => Promise<() => void>;

/** Gives turns, one at a time and in the order in which they were asked for. */
function createTurns(): Turns {
  let last = Promise.resolve();
  return async () => {
    const before = last;
    const { promise, resolve } = Promise.withResolvers<void>();
    last = promise;
    await before;
    return resolve;
  };
}

type RunStatement = (query: Pick<CompiledQuery, 'sql' | 'parameters'>) => QueryResult<unknown>;

const mostStatements = 500;

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

import Sqlite, { type Database } from 'better-sqlite3';
import pg from 'pg';

/** The statements that the drivers of this process run, with the values of the first run. */
export interface RecordedStatements {
  statements: Map<string, readonly unknown[]>;
  stop(): void;
}

/** Records at the drivers, so that every statement of a server in this process is seen, prepared or not. */
export function recordDrivers(): RecordedStatements {
  const statements = new Map<string, readonly unknown[]>();
  const record = (text: string, values: readonly unknown[] = []) => {
    if (!statements.has(text)) statements.set(text, values);
  };
  const stopSqlite = recordSqlite(record);
  const stopPostgres = recordPostgres(record);
  return {
    statements,
    stop() {
      stopSqlite();
      stopPostgres();
    },
  };
}

type Record = (text: string, values?: readonly unknown[]) => void;
type Method = (this: { source: string }, ...args: unknown[]) => unknown;

function recordSqlite(record: Record): () => void {
  const prototype = Object.getPrototypeOf(new Sqlite(':memory:').prepare('select 1')) as { [name: string]: Method };
  const { all, run } = prototype;
  for (const [name, method] of Object.entries({ all, run }))
    prototype[name] = function (...args) {
      record(this.source);
      return method?.apply(this, args);
    };
  return () => void Object.assign(prototype, { all, run });
}

function recordPostgres(record: Record): () => void {
  const prototype = pg.Client.prototype as { query(...args: unknown[]): unknown };
  const original = prototype.query;
  prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [config, values] = args as [string | { text: string; values?: unknown[] }, unknown[] | undefined];
    if (typeof config === 'string') record(config, values);
    else record(config.text, config.values ?? values);
    return original.apply(this, args);
  };
  return () => {
    prototype.query = original;
  };
}

/** The most that a statement reads of one table: rows on SQLite, pages on PostgreSQL. */
export interface TableRead {
  /** The line of the plan. */
  plan: string;
  amount: number;
}

/**
 * Reads the plan of a statement on SQLite, and counts the rows that each of its accesses can visit: all rows of a scan, or
 * the largest group of rows with the same values in the columns that a search compares for equality. A limit does not
 * count, because a filter may skip any number of rows before it is reached.
 */
export function explainOnSqlite(database: Database, text: string): TableRead[] {
  const placeholders = text.match(/\?/g) ?? [];
  const explain = database.prepare(`explain query plan ${text}`);
  const lines = explain.all(placeholders.map(() => null)) as { detail: string }[];
  return lines.flatMap(({ detail }) => {
    const amount = countVisitedRows(database, text, detail);
    return amount === 0 ? [] : [{ plan: detail, amount }];
  });
}

const accessPattern =
  /^(?<how>SCAN|SEARCH) (?<alias>\S+)(?: USING (?:COVERING )?(?:INDEX (?<index>\S+)|(?<key>INTEGER PRIMARY KEY))(?: \((?<terms>.*)\))?)?/;

function countVisitedRows(database: Database, text: string, detail: string): number {
  const { alias = '', index, key, terms = '' } = accessPattern.exec(detail)?.groups ?? {};
  const table = index === undefined ? findTable(database, text, alias) : findTableOfIndex(database, index);
  if (table === undefined) return 0;
  if (key !== undefined && terms === 'rowid=?') return 1;
  const columns = [...terms.matchAll(/(?:^| AND )(\w+)=\?/g)].map(([, column]) => column);
  return countLargestGroup(database, table, index, key === undefined ? columns.join(', ') : '');
}

/** Undefined for a subquery. */
function findTable(database: Database, text: string, alias: string): string | undefined {
  const aliased = new RegExp(`"?(\\w+)"? (?:as )?"?${alias}"?\\b`, 'i').exec(text)?.[1];
  const isTable = database.prepare("select 1 from sqlite_master where type = 'table' and name = ?").pluck();
  return [alias, aliased].find((name) => name !== undefined && isTable.get(name) === 1);
}

function findTableOfIndex(database: Database, index: string): string | undefined {
  const select = database.prepare("select tbl_name from sqlite_master where type = 'index' and name = ?").pluck();
  return select.get(index) as string | undefined;
}

const groupSizes = new Map<string, number>();

function countLargestGroup(database: Database, table: string, index: string | undefined, columns: string): number {
  const select = database.prepare("select sql from sqlite_master where type = 'index' and name = ?").pluck();
  const definition = index === undefined ? null : (select.get(index) as string | null);
  const condition = /\bwhere\b[\s\S]*$/i.exec(definition ?? '')?.[0] ?? '';
  const query = `select coalesce(max(size), 0) from
    (select count(*) as size from ${table} ${condition} ${columns === '' ? '' : `group by ${columns}`})`;
  const size = groupSizes.get(query) ?? (database.prepare(query).pluck().get() as number);
  groupSizes.set(query, size);
  return size;
}

/**
 * Runs a statement on PostgreSQL, in a transaction that is rolled back, and returns the number of pages that it read. A
 * statement that cannot run twice is only planned, and counts as reading the tables that it would scan.
 */
export async function explainOnPostgres(
  client: pg.Client,
  text: string,
  values: readonly unknown[],
): Promise<TableRead[]> {
  const run = async (options: string) => {
    await client.query('begin');
    try {
      const { rows } = await client.query(`explain (${options}) ${text}`, [...values]);
      return (rows as { 'QUERY PLAN': string }[]).map((row) => row['QUERY PLAN']);
    } finally {
      await client.query('rollback');
    }
  };
  try {
    const lines = await run('analyze, buffers, timing off');
    // The first line of buffers is that of the whole statement. Those of its planning come last.
    const executed = lines.slice(0, lines.indexOf('Planning:') + 1 || lines.length);
    const buffers = executed.find((line) => /^\s+Buffers: shared/.test(line)) ?? '';
    const amount = [...buffers.matchAll(/(?:hit|read)=(\d+)/g)].reduce((sum, [, pages]) => sum + Number(pages), 0);
    return [{ plan: lines.join('\n'), amount }];
  } catch {
    const lines = await run('costs on');
    return lines
      .filter((line) => /Seq Scan on/.test(line))
      .map((line) => ({ plan: line, amount: Number(/rows=(\d+)/.exec(line)?.[1]) }));
  }
}

import type { Compilable, CompiledQuery, Insertable } from 'kysely';
import { type Dialect, dialectOf } from './dialect.ts';
import { memoOf } from './memo.ts';
import type { Db, Tables } from './tables.ts';

/** Stands in a query for a value that is not known yet. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** Gives the place of a value, by its name. */
export type Value<Values> = <Name extends keyof Values & string>(name: Name) => Required<Values>[Name];

type Build<Values, Row> = (db: Db, value: Value<Values>) => Compilable<Row>;
export type Prepared<Values, Row> = (db: Db, values: Values) => Promise<readonly Row[]>;

const names = new Map<string, string>();

/** The name of a query that was put together here: a server that is told it parses the query once a connection. */
export function nameOf(text: string): string | undefined {
  return names.get(text);
}

/** Puts a query together once for each kind of database; answers with what gives it for other values each time. */
function compiledOnce<Values extends object, Row>(build: Build<Values, Row>) {
  const queries = new Map<Dialect, CompiledQuery<Row>>();

  function queryFor(db: Db): CompiledQuery<Row> {
    const dialect = dialectOf(db);
    const known = queries.get(dialect);
    if (known !== undefined) return known;
    const query = build(db, (value) => new Placeholder(value) as never).compile();
    queries.set(dialect, query);
    if (!names.has(query.sql)) names.set(query.sql, `bursar_${names.size + 1}`);
    return query;
  }

  return (db: Db, values: Values): CompiledQuery<Row> => {
    const query = queryFor(db);
    const known = values as Record<string, unknown>;
    const parameters = query.parameters.map((value) => (value instanceof Placeholder ? known[value.name] : value));
    return { ...query, parameters };
  };
}

/**
 * A query that is put together once for each kind of database, and then run with other values each time. For those that
 * every request needs: putting a query together takes longer than running it.
 */
export function prepared<Values extends object, Row>(build: Build<Values, Row>): Prepared<Values, Row> {
  const queryWith = compiledOnce(build);
  return async (db, values) => (await db.executeQuery<Row>(queryWith(db, values))).rows;
}

let memories = 0;

/** The same for a query that only reads, and is not run at all where it is known to give the same rows as before. */
export function remembered<Values extends object, Row>(build: Build<Values, Row>): Prepared<Values, Row> {
  const queryWith = compiledOnce(build);
  const name = ++memories;
  return async (db, values) => {
    const memo = memoOf(db);
    if (memo === undefined) return (await db.executeQuery<Row>(queryWith(db, values))).rows;
    const version = memo.version();
    const key = `${name} ${JSON.stringify(values)}`;
    const known = memo.get(version, key);
    if (known !== undefined) return known as readonly Row[];
    const rows = memo.read(queryWith(db, values));
    memo.put(version, key, rows);
    return rows as readonly Row[];
  };
}

/** Queries of one kind that differ in their shape, such as in what they are filtered by: each is prepared once. */
export function byShape<Shape extends string | number, Query>(
  prepare: (shape: Shape) => Query,
): (shape: Shape) => Query {
  const known = new Map<Shape, Query>();
  return (shape) => {
    const query = known.get(shape) ?? prepare(shape);
    known.set(shape, query);
    return query;
  };
}

/** An insert into these columns of a table, of a few rows at a time. */
export function preparedInsert<Table extends keyof Tables, Column extends keyof Tables[Table] & string>(
  table: Table,
  columns: readonly Column[],
): (
  db: Db,
  rows: readonly Pick<Insertable<Tables[Table]>, Column & keyof Insertable<Tables[Table]>>[],
) => Promise<void> {
  const insertOf = byShape((count: number) =>
    prepared((db, value: Value<Record<string, unknown>>) => {
      const place = (row: number) => Object.fromEntries(columns.map((column) => [column, value(`${column} ${row}`)]));
      const rows = Array.from({ length: count }, (_, row) => place(row));
      return db.insertInto(table).values(rows as never);
    }),
  );
  return async (db, rows) => {
    const values = rows.flatMap((row, index) =>
      columns.map((column) => [`${column} ${index}`, (row as Record<string, unknown>)[column]]),
    );
    await insertOf(rows.length)(db, Object.fromEntries(values));
  };
}

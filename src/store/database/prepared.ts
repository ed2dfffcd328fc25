import type { Compilable, CompiledQuery, Insertable } from 'kysely';
import type { Dialect } from './dialect.ts';
import type { Db, Tx } from './handle.ts';
import type { Tables } from './tables.ts';

/** Stands in a query for a value that is given when the query runs. */
class Placeholder<Values> {
  readonly read: (values: Values) => unknown;

  constructor(read: (values: Values) => unknown) {
    this.read = read;
  }
}

/** Makes a placeholder for a named parameter. */
export type Param<Values> = <Name extends keyof Values & string>(name: Name) => Required<Values>[Name];

/** Makes a placeholder for the value that `read` returns. */
export type MakePlaceholder<Values> = (read: (values: Values) => unknown) => unknown;

type Build<Values, Row> = (db: Db, param: Param<Values>, makePlaceholder: MakePlaceholder<Values>) => Compilable<Row>;
export type PreparedQuery<Values, Row> = (db: Db, values: Values) => Promise<readonly Row[]>;

interface Compiled<Values, Row> {
  query: CompiledQuery<Row>;
  parameterReaders: readonly ((values: Values) => unknown)[];
}

/** Compiles a query once for each dialect. Compiling takes longer than running most of the queries that requests need. */
export function prepareQuery<Values extends object, Row>(build: Build<Values, Row>): PreparedQuery<Values, Row> {
  const byDialect = new Map<Dialect, Compiled<Values, Row>>();

  function compile(db: Db): Compiled<Values, Row> {
    const makePlaceholder: MakePlaceholder<Values> = (read) => new Placeholder(read);
    const param: Param<Values> = (name) => makePlaceholder((values) => values[name]) as never;
    const query = build(db, param, makePlaceholder).compile();
    const parameterReaders = query.parameters.map((value) =>
      value instanceof Placeholder ? (value.read as (values: Values) => unknown) : () => value,
    );
    const compiled = { query, parameterReaders };
    byDialect.set(db.backend.dialect, compiled);
    return compiled;
  }

  return (db, values) => {
    const { query, parameterReaders } = byDialect.get(db.backend.dialect) ?? compile(db);
    return db.backend.run(db, { ...query, parameters: parameterReaders.map((read) => read(values)) });
  };
}

/** Prepares one query for each shape, such as the set of filters in use, when that shape is first needed. */
export function prepareByShape<Shape extends string | number, Query>(
  prepare: (shape: Shape) => Query,
): (shape: Shape) => Query {
  const queries = new Map<Shape, Query>();
  return (shape) => {
    const query = queries.get(shape) ?? prepare(shape);
    queries.set(shape, query);
    return query;
  };
}

type RowOf<Table extends keyof Tables, Column extends string> = Pick<
  Insertable<Tables[Table]>,
  Column & keyof Insertable<Tables[Table]>
>;

/** Prepares an insert of rows that all have these columns, once for each number of rows. */
export function prepareInsert<Table extends keyof Tables, Column extends keyof Tables[Table] & string>(
  table: Table,
  columns: readonly Column[],
): (tx: Tx, rows: readonly RowOf<Table, Column>[]) => Promise<void> {
  type Rows = readonly Readonly<Record<string, unknown>>[];
  const prepareRows = prepareByShape((count: number) =>
    prepareQuery((db, _param: Param<Rows>, makePlaceholder: MakePlaceholder<Rows>) => {
      const placeholders = (index: number) =>
        columns.map((column) => [column, makePlaceholder((rows) => rows[index]?.[column])]);
      const rows = Array.from({ length: count }, (_, index) => Object.fromEntries(placeholders(index)));
      return db.insertInto(table).values(rows as never);
    }),
  );
  return async (tx, rows) => {
    if (rows.length > 0) await prepareRows(rows.length)(tx, rows as Rows);
  };
}

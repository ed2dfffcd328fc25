import { CamelCasePlugin, type Compilable, type CompiledQuery, type QueryCreator, type UnknownRow } from 'kysely';
import type { Dialect } from './dialect.ts';
import type { Db, Tx } from './handle.ts';
import type { NewRow, Tables } from './tables.ts';

/** Columns have names like `job_id` in the database, and like `jobId` in queries and rows. */
class ColumnNames extends CamelCasePlugin {
  override async transformResult<Result extends { rows: readonly UnknownRow[] }>({ result }: { result: Result }) {
    return { ...result, rows: this.toRows<UnknownRow>(result.rows) as UnknownRow[] };
  }

  /** All rows have the same columns, so that their names are converted once. */
  toRows<Row>(rows: readonly unknown[]): readonly Row[] {
    const names = Object.keys(rows[0] ?? {});
    const newNames = names.map((name) => this.camelCase(name));
    if (names.every((name, index) => name === newNames[index])) return rows as readonly Row[];
    return (rows as readonly UnknownRow[]).map((row) => {
      const renamed: UnknownRow = {};
      for (let index = 0; index < names.length; index++)
        renamed[newNames[index] as string] = row[names[index] as string];
      return renamed as Row;
    });
  }
}

export const columnNames = new ColumnNames();

/** Stands in a query for a value that is given when the query runs. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** Makes a placeholder for a named parameter. */
export type Param<Values> = <Name extends keyof Values & string>(name: Name) => Required<Values>[Name];

/** Compiles a query once for each dialect. Compiling takes longer than running most of the queries that requests need. */
export function prepareQuery<Values extends object, Row>(build: (db: Db, param: Param<Values>) => Compilable<Row>) {
  const byDialect = new Map<Dialect, CompiledQuery<Row>>();
  return (db: Db, values: Values): Promise<readonly Row[]> => {
    const { dialect } = db.backend;
    const query = byDialect.get(dialect) ?? build(db, (name) => new Placeholder(name) as never).compile();
    byDialect.set(dialect, query);
    const parameters = query.parameters.map((value) =>
      value instanceof Placeholder ? values[value.name as keyof Values] : value,
    );
    return db.backend.run(db, { ...query, parameters });
  };
}

/** Prepares one query for each shape, such as the set of filters in use, when that shape is first needed. */
export function prepareByShape<Query>(prepare: (shape: string) => Query): (shape: string) => Query {
  const queries = new Map<string, Query>();
  return (shape) => {
    const query = queries.get(shape) ?? prepare(shape);
    queries.set(shape, query);
    return query;
  };
}

type RowsByTable = { readonly [Table in keyof Tables]?: readonly NewRow<Table>[] };

/** The rows of one table in an insert. All of them have the same columns. */
interface InsertShape {
  table: keyof Tables;
  columns: string[];
  count: number;
}

/** The name of the parameter for one value of an insert. */
const parameterName = (table: string, index: number, column: string) => `${table}.${index}.${column}`;

/** Inserts rows into several tables, by one statement if the database can do that. */
export async function insertRows(tx: Tx, rowsByTable: RowsByTable): Promise<void> {
  const values: Record<string, unknown> = {};
  const shapes = Object.entries(rowsByTable).flatMap(([table, rows]) => {
    for (const [index, row] of rows.entries())
      for (const [column, value] of Object.entries(row)) values[parameterName(table, index, column)] = value;
    return rows[0] === undefined ? [] : [{ table, columns: Object.keys(rows[0]), count: rows.length }];
  });
  const statements = tx.backend.dialect.insertsIntoSeveralTables ? [shapes] : shapes.map((shape) => [shape]);
  for (const statement of statements) await prepareInsert(JSON.stringify(statement))(tx, values);
}

/** Prepares `with insert_jobs as (insert …) insert …`. */
const prepareInsert = prepareByShape((text: string) =>
  prepareQuery((db, param: Param<Record<string, unknown>>) => {
    const [last, ...others] = JSON.parse(text) as [InsertShape, ...InsertShape[]];
    const insert = (creator: QueryCreator<Tables>, { table, columns, count }: InsertShape) => {
      const toRow = (_: unknown, index: number) =>
        Object.fromEntries(columns.map((column) => [column, param(parameterName(table, index, column))]));
      return creator.insertInto(table).values(Array.from({ length: count }, toRow) as never);
    };
    const creator = others.reduce<QueryCreator<Tables>>(
      (outer, shape) => outer.with(`insert_${shape.table}`, (inner) => insert(inner, shape)) as never,
      db,
    );
    return insert(creator, last);
  }),
);

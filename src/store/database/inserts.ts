import type { Insertable, QueryCreator } from 'kysely';
import type { Tx } from './handle.ts';
import { type PreparedQuery, prepareByShape, prepareQuery } from './prepared.ts';
import type { Tables } from './tables.ts';

type Row = Readonly<Record<string, unknown>>;
type RowOf<Table extends keyof Tables, Column> = Pick<
  Insertable<Tables[Table]>,
  Column & keyof Insertable<Tables[Table]>
>;

/** The columns of a table that an insert writes. */
interface TableColumns {
  table: keyof Tables;
  columns: readonly string[];
}

/** A `Shape` refers to them by their index. */
const targets: TableColumns[] = [];

/** Rows to insert into one table. */
export interface TableRows {
  /** The index of the table and its columns in `targets`. */
  target: number;
  rows: readonly Row[];
}

/** Returns a function that makes rows for `insertRows`, always with the same columns. Call it once for each table. */
export function rowBuilder<Table extends keyof Tables, Column extends keyof Tables[Table] & string>(
  table: Table,
  columns: readonly Column[],
): (rows: readonly RowOf<Table, Column>[]) => TableRows {
  const target = targets.push({ table, columns }) - 1;
  return (rows) => ({ target, rows: rows as readonly Row[] });
}

/** Inserts rows into several tables, by one statement if the database can do that. */
export async function insertRows(tx: Tx, ...inserts: readonly TableRows[]): Promise<void> {
  const statements = tx.backend.dialect.canInsertIntoSeveralTables ? [inserts] : inserts.map((insert) => [insert]);
  for (const statement of statements) await prepareInsert(toShape(statement))(tx, listValues(statement));
}

/** Lists the values in the order of their placeholders. */
function listValues(inserts: readonly TableRows[]): unknown[] {
  const values: unknown[] = [];
  for (const { target, rows } of inserts) {
    const columns = targets[target]?.columns ?? [];
    for (const row of rows) for (const column of columns) values.push(row[column]);
  }
  return values;
}

type Shape = readonly { target: number; rowCount: number }[];

function toShape(inserts: readonly TableRows[]): string {
  const shape: Shape = inserts.map(({ target, rows }) => ({ target, rowCount: rows.length }));
  return JSON.stringify(shape);
}

/** Prepares `with insert_0 as (insert …), insert_1 as (insert …) insert …`. */
const prepareInsert = prepareByShape((text: string): PreparedQuery<readonly unknown[], unknown> => {
  const shape = JSON.parse(text) as Shape;
  return prepareQuery((db, _param, makePlaceholder) => {
    let placeholderCount = 0;
    const nextPlaceholder = () => {
      const index = placeholderCount++;
      return makePlaceholder((values) => values[index]);
    };
    const buildInsert = (creator: QueryCreator<Tables>, index: number) => {
      const { target, rowCount } = shape[index] as Shape[number];
      const { table, columns } = targets[target] as TableColumns;
      const placeholderRow = () => Object.fromEntries(columns.map((column) => [column, nextPlaceholder()]));
      return creator.insertInto(table).values(Array.from({ length: rowCount }, placeholderRow) as never);
    };
    const last = shape.length - 1;
    let creator: QueryCreator<Tables> = db;
    for (let index = 0; index < last; index++) {
      creator = creator.with(`insert_${index}`, (inner) => buildInsert(inner, index)) as never;
    }
    return buildInsert(creator, last);
  });
});

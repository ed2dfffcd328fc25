import type { Insertable, QueryCreator } from 'kysely';
import type { Tx } from './handle.ts';
import { type PreparedQuery, prepared } from './prepared.ts';
import type { Tables } from './tables.ts';

type Row = Readonly<Record<string, unknown>>;
type RowOf<Table extends keyof Tables, Column> = Pick<
  Insertable<Tables[Table]>,
  Column & keyof Insertable<Tables[Table]>
>;

let placesNamed = 0;

/** Some columns of a table, under a short name of their own. */
interface TableColumns {
  table: keyof Tables;
  columns: readonly string[];
  name: string;
}

/** A few rows for one table. */
export interface TableRows {
  target: TableColumns;
  rows: readonly Row[];
}

/** For a table of which always the same columns are written. */
export function rowBuilder<Table extends keyof Tables, Column extends keyof Tables[Table] & string>(
  table: Table,
  columns: readonly Column[],
): (rows: readonly RowOf<Table, Column>[]) => TableRows {
  const into = { table, columns, name: String(++placesNamed) };
  return (rows) => ({ target: into, rows: rows as readonly Row[] });
}

/** Inserts rows that belong together, into all tables by one statement where the database can do so. */
export async function insertRows(tx: Tx, ...all: readonly TableRows[]): Promise<void> {
  const statements = tx.backend.dialect.canInsertIntoSeveralTables ? [all] : all.map((rows) => [rows]);
  for (const one of statements) await statementFor(one)(tx, valuesOf(one));
}

/** All values in the order in which they are written. */
function valuesOf(all: readonly TableRows[]): unknown[] {
  const values: unknown[] = [];
  for (const { target: into, rows } of all)
    for (const row of rows) for (const column of into.columns) values.push(row[column]);
  return values;
}

const known = new Map<string, PreparedQuery<readonly unknown[], unknown>>();

function statementFor(all: readonly TableRows[]): PreparedQuery<readonly unknown[], unknown> {
  const shape = all.map(({ target: into, rows }) => `${rows.length} ${into.name}`).join();
  const statement = known.get(shape) ?? prepareInsert(all);
  known.set(shape, statement);
  return statement;
}

/** `with a as (insert …), b as (insert …) insert …` */
function prepareInsert(all: readonly TableRows[]): PreparedQuery<readonly unknown[], unknown> {
  // Without the rows themselves, which would be kept for ever.
  const shapes = all.map(({ target: into, rows }) => ({ into, count: rows.length }));
  return prepared((db, _value, found) => {
    let places = 0;
    const place = () => {
      const number = places++;
      return found((values) => values[number]);
    };
    const insertOf = (creator: QueryCreator<Tables>, index: number) => {
      const { into, count } = shapes[index] as (typeof shapes)[number];
      const rowOf = () => Object.fromEntries(into.columns.map((column) => [column, place()]));
      const values = Array.from({ length: count }, rowOf);
      return creator.insertInto(into.table).values(values as never);
    };
    const last = shapes.length - 1;
    let creator: QueryCreator<Tables> = db;
    for (let index = 0; index < last; index++) {
      creator = creator.with(`insert_${index}`, (inner) => insertOf(inner, index)) as never;
    }
    return insertOf(creator, last);
  });
}

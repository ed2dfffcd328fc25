import type { Db } from './tables.ts';

/** Everything in which the databases differ, for the migrations and the queries alike. */
export interface Dialect {
  /** The type of a record number that the database gives. Numbers are never given twice. */
  identityColumn: string;
  /** Statements after which the database itself refuses to change or delete the rows of a table. */
  appendOnly(table: string): string[];
  /** An expression for the month, as `YYYY-MM` in UTC, of a column of epoch milliseconds. */
  monthOf(column: string): string;
}

export const sqlite: Dialect = {
  identityColumn: 'integer primary key autoincrement',
  appendOnly: (table) =>
    ['update', 'delete'].map(
      (act) => `create trigger ${table}_refuse_${act} before ${act} on ${table}
                begin select raise(abort, '${table} is append-only'); end`,
    ),
  monthOf: (column) => `strftime('%Y-%m', ${column} / 1000, 'unixepoch')`,
};

export function dialectOf(_db: Db): Dialect {
  return sqlite;
}

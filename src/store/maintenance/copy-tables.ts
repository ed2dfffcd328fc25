import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';

/** A table as the database describes it; whatever the migrations have made is there, without being listed anywhere. */
interface Table {
  name: string;
  columns: string[];
  /** Whether the database numbers its rows. */
  isNumbered: boolean;
  /** Whether its rows can be large. */
  hasBytes: boolean;
}

/** The most values that one statement binds; SQLite takes 32,766. */
const mostValues = 20_000;
const mostLargeRows = 100;

/** How many rows each table has. */
export async function countRows(db: Db): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { name } of await tablesOf(db)) {
    const { rows } = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(db);
    counts.set(name, Number(rows[0]?.n));
  }
  return counts;
}

/**
 * Copies every row of every table, and the numbers that were given last, so that none is given twice. Both must have the
 * same schema, and the target no rows; both handles should be transactions.
 */
export async function copyTables(from: Db, to: Db): Promise<void> {
  const { lastId } = from.backend.dialect;
  const { setLastId } = to.backend.dialect;
  for (const table of await tablesOf(from)) {
    await copyRows(from, to, table);
    if (table.isNumbered) await setLastId(to, table.name, await lastId(from, table.name));
  }
}

async function copyRows(from: Db, to: Db, { name, columns, hasBytes }: Table): Promise<void> {
  const size = hasBytes ? mostLargeRows : Math.floor(mostValues / columns.length);
  for await (const rows of from.backend.dialect.readTable(from, name, size)) {
    const values = rows.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`);
    const names = sql.join(columns.map((column) => sql.ref(column)));
    await sql`insert into ${sql.table(name)} (${names}) values ${sql.join(values)}`.execute(to);
  }
}

/** Every table after those that its rows refer to. */
async function tablesOf(db: Db): Promise<Table[]> {
  const { schemaName, foreignKeys, bytesColumn } = db.backend.dialect;
  const schema = await schemaName(db);
  const parents = await foreignKeys(db);
  const described = await db.introspection.getTables();
  const left = new Map(
    described
      .filter((table) => !table.isView && (schema === null || table.schema === schema))
      .map(({ name, columns }) => [
        name,
        {
          name,
          columns: columns.map((column) => column.name),
          isNumbered: columns.some((column) => column.isAutoIncrementing),
          hasBytes: columns.some((column) => column.dataType.toLowerCase() === bytesColumn),
        },
      ]),
  );
  const ordered: Table[] = [];
  while (left.size > 0) {
    const next = [...left.values()].find(({ name }) =>
      parents.every(({ child, parent }) => child !== name || parent === name || !left.has(parent)),
    );
    if (next === undefined) throw new Error(`tables refer to each other in a circle: ${[...left.keys()].join(', ')}`);
    left.delete(next.name);
    ordered.push(next);
  }
  return ordered;
}

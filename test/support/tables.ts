import type { Db } from '../../src/store/tables.ts';

/**
 * Every row of every table, in an order that does not depend on the database; except the mark of a data folder, which
 * stays where the folder is.
 */
export async function everyRow(db: Db): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {};
  const tables = (await db.introspection.getTables()).filter(({ name }) => name !== 'facts');
  for (const { name } of tables) {
    const rows = await db
      .selectFrom(name as 'users')
      .selectAll()
      .execute();
    all[name] = rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
  }
  return all;
}

import type { Db } from '../../src/store/database/handle.ts';

/**
 * Reads every row of every table, in an order that does not depend on the database. The data folder id and the leases are
 * left out, because they are not copied.
 */
export async function readAllRows(db: Db): Promise<Record<string, string[]>> {
  const rowsByTable: Record<string, string[]> = {};
  const tables = (await db.introspection.getTables()).filter(({ name }) => !['settings', 'leases'].includes(name));
  for (const { name } of tables) {
    const rows = await db
      .selectFrom(name as 'users')
      .selectAll()
      .execute();
    rowsByTable[name] = rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
  }
  return rowsByTable;
}

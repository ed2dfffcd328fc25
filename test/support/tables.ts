import type { Db } from '../../src/store/database/handle.ts';

/**
 * Every row of every table, in an order that does not depend on the database; except the mark of a data folder and
 * the leases, which stay where they are.
 */
export async function readAllRows(db: Db): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {};
  const tables = (await db.introspection.getTables()).filter(({ name }) => !['facts', 'leases'].includes(name));
  for (const { name } of tables) {
    const rows = await db
      .selectFrom(name as 'users')
      .selectAll()
      .execute();
    all[name] = rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
  }
  return all;
}

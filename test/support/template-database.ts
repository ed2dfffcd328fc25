import { openDatabase } from '../../src/store/database/database.ts';

/** Has the latest schema. Each test on PostgreSQL uses a copy of it: a copy takes half the CPU time of the migrations. */
export const templateDatabase = 'bursar-template';

/** Migrates the new, empty template. */
export async function prepareTemplateDatabase(url: string): Promise<void> {
  const db = await openDatabase({ url, connections: 1, connectTimeoutSeconds: 20, statementTimeoutSeconds: 60 }, '');
  await db.destroy();
}

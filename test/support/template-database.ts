import { openDatabase } from '../../src/store/database/database.ts';
import type { TestPostgres } from './postgres.ts';

/** Has the latest schema. Each test on PostgreSQL uses a copy of it: a copy takes half the CPU time of the migrations. */
export const templateDatabase = 'bursar-template';

export async function createTemplateDatabase(postgres: TestPostgres): Promise<void> {
  const url = await postgres.database(templateDatabase);
  const settings = { url, connections: 1, connectTimeoutSeconds: 20, statementTimeoutSeconds: 60 };
  const db = await openDatabase(settings, '');
  await db.destroy();
}

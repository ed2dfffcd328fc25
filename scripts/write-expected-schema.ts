// Writes the schema that the migrations produce, with which a server compares its database. Tests compare it on both databases.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createMigrator } from '../src/store/database/migrations.ts';
import { describeSchema } from '../src/store/database/schema-check.ts';
import { openSqlite } from '../src/store/database/sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'bursar-schema-'));
const db = openSqlite(join(folder, 'schema.db'));
try {
  await createMigrator(db).migrateToLatest();
  const file = new URL('../src/store/database/expected-schema.json', import.meta.url);
  writeFileSync(file, `${JSON.stringify(await describeSchema(db), null, 2)}\n`);
} finally {
  await db.destroy();
  rmSync(folder, { recursive: true });
}

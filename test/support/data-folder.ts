import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { databaseEnvironment, dropDatabase, prepareDatabase } from './database.ts';
import type { ServerOptions } from './server.ts';

/** Creates the data folder, its database and its configuration file. The environment names all of them. */
export async function prepareDataFolder({
  data = mkdtempSync(join(tmpdir(), 'bursar-test-')),
  config,
  databaseUrl,
}: ServerOptions & { databaseUrl?: string }): Promise<{ data: string; environment: NodeJS.ProcessEnv }> {
  if (databaseUrl === undefined) await prepareDatabase(data);
  const database = databaseUrl === undefined ? databaseEnvironment(data) : { BURSAR_DATABASE_URL: databaseUrl };
  const environment: NodeJS.ProcessEnv = { ...process.env, BURSAR_DATA: data, BURSAR_PORT: '0', ...database };
  delete environment.BURSAR_CONFIG;
  if (config !== undefined) {
    environment.BURSAR_CONFIG = `${data}.yaml`;
    writeFileSync(environment.BURSAR_CONFIG, stringify(config));
  }
  return { data, environment };
}

export async function removeDataFolder(data: string): Promise<void> {
  // Jobs outlive their server and may still be writing.
  rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  rmSync(`${data}.yaml`, { force: true });
  await dropDatabase(data);
}

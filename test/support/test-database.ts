import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config/schema.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { enrolUser, syncProjects } from '../../src/services/identity/enrolment.ts';
import { openDatabase } from '../../src/store/database/database.ts';
import type { Db, Tx } from '../../src/store/database/handle.ts';
import { databaseSettings, dropDatabase, prepareDatabase } from './database.ts';

export interface TestDatabase {
  db: Db;
  config: Config;
  folder: string;
  close(): Promise<void>;
}

/** Opens a database with one batch system, one project and these members, each with the grant. */
export async function openTestDatabase(members: string[], timeSeconds: number, spaceKb: number): Promise<TestDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-database-'));
  const projects = [{ name: 'proj', grant: { timeSeconds, spaceKb } }];
  const config = validateConfig({ data: folder, systems: { sys: { kind: 'batch', projects } } }, 'test');
  await prepareDatabase(folder);
  const db = await openDatabase(databaseSettings(folder), folder);
  await syncProjects(db, config, 1);
  for (const member of members) await enrolUser(db, member, 'user', 1);
  return {
    db,
    config,
    folder,
    close: async () => {
      await db.destroy();
      await dropDatabase(folder);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Makes public columns for tests in which their content does not matter. */
export function publicColumns(stage: string) {
  return (id = 0) => ({ json: `{"id":${id}}`, title: '', stage, isTerminal: false, isFailure: false });
}

/** Stores the end of a job without its details. Does nothing if it has ended. */
export async function storeEnd(tx: Tx, id: number): Promise<void> {
  const row = await tx
    .updateTable('jobs')
    .set({ state: 'ended' })
    .where('id', '=', id)
    .where('state', '<>', 'ended')
    .returning('owner')
    .executeTakeFirst();
  if (row === undefined) return;
  const users = tx.updateTable('users').where('id', '=', row.owner);
  await users.set((eb) => ({ unfinishedJobs: eb('unfinishedJobs', '-', 1) })).execute();
}

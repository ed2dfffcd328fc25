import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { link, mkdir, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { lockDataFolder } from '../../../src/store/maintenance/data-folder.ts';
import { temporaryFolder } from '../temporary.ts';
import { jobId, measureBytes, openWorkspace } from './reader-setup.ts';

/** Tries to begin a transaction in another process: POSIX locks do not exclude the process that has them. */
async function beginElsewhere(file: string, mode: 'immediate' | 'exclusive'): Promise<string> {
  const script = `
    const Sqlite = require('better-sqlite3');
    try { new Sqlite(process.argv[1], { timeout: 0 }).exec('begin ' + process.argv[2]); console.log('begun'); }
    catch (error) { console.log(error.code); }`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--eval', script, file, mode]);
  return stdout.trim();
}

async function countElsewhere(file: string): Promise<string> {
  const script = `
    const database = require('better-sqlite3')(process.argv[1]);
    console.log(database.prepare('select count(*) from settings').pluck().get());
    database.close();`;
  return (await promisify(execFile)(process.execPath, ['--eval', script, file])).stdout.trim();
}

/** Reads a file of a workspace in every way that there is. */
async function readEverything({ workspaces, content, log, paths, archive }: Awaited<ReturnType<typeof openWorkspace>>) {
  await content('hard');
  await paths();
  await log('stdout');
  await buffer(await writeZip(archive()));
  await measureBytes(workspaces);
}

async function openLinkedWorkspace(t: TestContext, target: string) {
  const workspace = await openWorkspace(t, (root) => createWorkspaces(root));
  await mkdir(workspace.at(), { recursive: true });
  await link(target, workspace.at('hard'));
  await link(target, join(workspace.home, 'stdout'));
  return workspace;
}

for (const suffix of ['', '-wal', '-shm']) {
  test(`a hard link to bursar.db${suffix} in a workspace does not drop the locks of SQLite`, async (t) => {
    const file = join(await temporaryFolder(t), 'bursar.db');
    const database = new Sqlite(file);
    t.after(() => database.close());
    // In WAL mode the lock of a writer is on the -shm file, and a lock on the database itself keeps the other two.
    database.pragma('journal_mode = WAL');
    database.exec('create table settings (name text)');
    database.exec('begin immediate');
    const workspace = await openLinkedWorkspace(t, `${file}${suffix}`);
    await readEverything(workspace);
    assert.equal(await beginElsewhere(file, 'immediate'), 'SQLITE_BUSY');
    database.exec("insert into settings values ('a'); commit");
    // A process that finds no lock takes itself for the last one, and removes the -wal file when it closes the database.
    assert.equal(await countElsewhere(file), '1');
    database.exec("insert into settings values ('b')");
    assert.equal(await countElsewhere(file), '2');
  });
}

test('a hard link to the lock of the data folder does not unlock it', async (t) => {
  const folder = await temporaryFolder(t);
  t.after(lockDataFolder(folder));
  const workspace = await openLinkedWorkspace(t, join(folder, 'server.lock'));
  await readEverything(workspace);
  assert.equal(await beginElsewhere(join(folder, 'server.lock'), 'exclusive'), 'SQLITE_BUSY');
});

test('a protected file is not opened, even if all its hard links seem to be in the workspace', async (t) => {
  const workspace = await openWorkspace(t, (root) =>
    createWorkspaces(root, { protectedFiles: [join(root, jobId, 'files', 'bursar.db'), '/missing'] }),
  );
  await workspace.writeFiles({ 'bursar.db': 'database', other: 'x' });
  await link(workspace.at('bursar.db'), workspace.at('hard'));
  await writeFile(join(workspace.home, 'stdout'), '');
  for (const name of ['bursar.db', 'hard']) assert.equal(await workspace.content(name), 'file_unknown');
  assert.equal(await workspace.content('other'), 'x');
  assert.deepEqual(await workspace.paths(), ['other']);
});

test('protected files are looked up only for files with several hard links', async (t) => {
  const workspace = await openWorkspace(t, (root) => createWorkspaces(root, { protectedFiles: ['/missing'] }));
  await workspace.writeFiles({ a: '', b: '', c: '' });
  await link(workspace.at('c'), workspace.at('d'));
  const { mock } = t.mock.method(fs, 'statSync');
  syncBuiltinESMExports();
  t.after(syncBuiltinESMExports);
  assert.deepEqual(await workspace.paths(), ['a', 'b', 'c', 'd']);
  assert.equal(mock.callCount(), 2);
});

import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openDatabase } from '../../../src/store/database/database.ts';
import { createDataFolder } from '../../../src/store/maintenance/data-folder.ts';
import { takeSnapshot } from '../../../src/store/maintenance/snapshot.ts';

function folderWithMode(t: TestContext, mode: number, ...names: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of names) writeFileSync(join(folder, name), '');
  chmodSync(folder, mode);
  return folder;
}

const modeOf = (path: string) => statSync(path).mode & 0o777;
const settings = { url: 'sqlite:bursar.db' };

test('a new data folder can be entered by its owner only', (t) => {
  const folder = join(folderWithMode(t, 0o755), 'new');
  assert.equal(createDataFolder(folder), false);
  assert.equal(modeOf(folder), 0o700);
});

for (const [name, ...content] of [
  ['empty'],
  ['of SQLite', 'server.lock', 'bursar.db'],
  ['of PostgreSQL', '.folder-id'],
]) {
  test(`an existing data folder (${name}) that others can enter is closed to them, and that is told once`, (t) => {
    const folder = folderWithMode(t, 0o775, ...content);
    assert.equal(createDataFolder(folder), true);
    assert.equal(modeOf(folder), 0o700);
    assert.equal(createDataFolder(folder), false);
  });
}

test('a folder with files of other programs that others can enter is refused, and not changed', (t) => {
  const folder = folderWithMode(t, 0o755, 'passwd');
  assert.throws(() => createDataFolder(folder), { code: 'invalid_config', message: /chmod o-rwx/ });
  assert.equal(modeOf(folder), 0o755);
});

test('a folder of another user is refused if everybody can enter it, and accepted if a group can', (t) => {
  if (process.getuid?.() !== 0) return t.skip('only root can give a folder to another user');
  const folder = folderWithMode(t, 0o770);
  chownSync(folder, 65_534, 0);
  assert.equal(createDataFolder(folder), false);
  assert.equal(modeOf(folder), 0o770);
  chmodSync(folder, 0o775);
  assert.throws(() => createDataFolder(folder), { code: 'invalid_config' });
});

test('only the owner can read the database and its backups, whatever the umask', async (t) => {
  const umask = process.umask(0o022);
  t.after(() => process.umask(umask));
  const folder = folderWithMode(t, 0o755);
  writeFileSync(join(folder, 'bursar.db'), '', { mode: 0o644 });
  const db = await openDatabase(settings, folder);
  t.after(() => db.destroy());
  for (const suffix of ['', '-wal', '-shm']) assert.equal(modeOf(join(folder, `bursar.db${suffix}`)), 0o600, suffix);
  mkdirSync(join(folder, 'backups'));
  const file = join(folder, 'backups', 'snapshot.db');
  await takeSnapshot(db, file);
  assert.equal(modeOf(file), 0o600);
});

test('a database of another user is refused if everybody can read it, and accepted if a group can', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('only root can give a file to another user');
  const folder = folderWithMode(t, 0o755);
  const file = join(folder, 'bursar.db');
  writeFileSync(file, '');
  chownSync(file, 65_534, 0);
  chmodSync(file, 0o664);
  await assert.rejects(openDatabase(settings, folder), {
    code: 'invalid_config',
    message: /Run "chmod o-rwx .*bursar\.db"/,
  });
  chmodSync(file, 0o660);
  await (await openDatabase(settings, folder)).destroy();
});

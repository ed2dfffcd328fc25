import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

describe('the built program', () => {
  let folder: string;
  const run = () => execFileSync(process.execPath, [join(folder, 'bin/bursar.mjs'), '--version'], { encoding: 'utf8' });
  const findBuildFolder = async () =>
    ((await import(join(folder, 'bin/build-folder.mjs'))) as typeof import('../../bin/build-folder.mjs')).buildFolder();

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-built-'));
    for (const name of ['bin', 'src', 'clients', 'web', 'scripts', 'config', 'package.json', 'package-lock.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('runs only while the sources are unchanged since the build', async () => {
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
    const built = await findBuildFolder();
    mkdirSync(built, { recursive: true });
    writeFileSync(join(built, 'program.mjs'), `export const runCommandLine = () => console.log('from the build');`);
    assert.equal(run(), 'from the build\n');
    utimesSync(join(folder, 'src/main.ts'), 1, 1);
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
  });

  test('gets a new folder when a source file, a dependency or the build script changes', async () => {
    const original = await findBuildFolder();
    writeFileSync(join(folder, 'src/domain/new.ts'), '');
    const withNewFile = await findBuildFolder();
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    const withNewDependencies = await findBuildFolder();
    writeFileSync(join(folder, 'scripts/build.mjs'), '');
    const withNewScript = await findBuildFolder();
    assert.equal(new Set([original, withNewFile, withNewDependencies, withNewScript]).size, 4);
  });
});

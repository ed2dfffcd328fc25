import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

describe('what was built', () => {
  let folder: string;
  const run = () => execFileSync(process.execPath, [join(folder, 'bin/bursar.mjs'), '--version'], { encoding: 'utf8' });
  const builtFolder = async () =>
    ((await import(join(folder, 'bin/built.mjs'))) as typeof import('../../bin/built.mjs')).builtFrom();

  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-built-'));
    for (const name of ['bin', 'src', 'scripts', 'config', 'package.json', 'package-lock.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  });
  after(() => rmSync(folder, { recursive: true }));

  test('is what runs, for as long as the sources are those that it was built from', async () => {
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
    const built = await builtFolder();
    mkdirSync(built, { recursive: true });
    writeFileSync(join(built, 'program.js'), `export const runCommandLine = () => console.log('as it was built');`);
    assert.equal(run(), 'as it was built\n');
    utimesSync(join(folder, 'src/main.ts'), 1, 1);
    assert.match(run(), /^\d+\.\d+\.\d+\n$/);
  });

  test('is another folder for each file that is added, for other dependencies, and when it is built otherwise', async () => {
    const before = await builtFolder();
    writeFileSync(join(folder, 'src/domain/new.ts'), '');
    const added = await builtFolder();
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    const updated = await builtFolder();
    writeFileSync(join(folder, 'scripts/build.mjs'), '');
    const otherwise = await builtFolder();
    assert.equal(new Set([before, added, updated, otherwise]).size, 4);
  });
});

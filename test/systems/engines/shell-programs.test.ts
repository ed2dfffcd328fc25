import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';

const programs = globSync('src/**/*.sh');

test('ShellCheck finds nothing in the shell programs', () => {
  assert.ok(programs.length > 0);
  const { status, stdout, stderr } = spawnSync('shellcheck', programs, { encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
});

test('no two shell programs have the same name, because the build puts them into one folder', () => {
  const names = programs.map((path) => basename(path));
  assert.deepEqual(names, [...new Set(names)]);
});

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';

/** Runs a group of one file with one test. */
function runGroup(t: TestContext, body: string) {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-group-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'example.test.mjs');
  writeFileSync(file, `import { test } from 'node:test';\ntest('example', async () => { ${body} });\n`);
  // Otherwise the process takes itself for one of the present run.
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/test-group.ts', file], {
    env,
    encoding: 'utf8',
  });
  return { status, output: stdout + stderr };
}

test('a group of test files succeeds', (t) => {
  const { status, output } = runGroup(t, 'await undefined;');
  assert.equal(status, 0, output);
  assert.match(output, /pass 1\b/);
});

test('a rejection that nobody handles fails the group, even if a command resets the exit code', (t) => {
  const body = "Promise.reject(new Error('unnoticed')); await new Promise(setImmediate); process.exitCode = 0;";
  const { status, output } = runGroup(t, body);
  assert.equal(status, 1, output);
  assert.match(output, /a rejection that nobody handles: Error: unnoticed\n +at .*example\.test\.mjs/);
});

test('an exception that nobody catches fails its test', (t) => {
  // The test ends after the exception: immediates run in order, and a timer could come before them.
  const body = "setImmediate(() => { throw new Error('unnoticed'); }); await new Promise(setImmediate);";
  const { status, output } = runGroup(t, body);
  assert.equal(status, 1, output);
  assert.match(output, /fail 1\b/);
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isolationCanary, parseIsolationCanary } from '../../../src/doctor/canary.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { localSandbox } from '../../support/bubblewrap.ts';

test('the canary of the doctor notices folders that can be read and not written, under every name', async (t) => {
  const folder = await temporaryFolder(t);
  const at = (name: string) => join(folder, name);
  for (const name of ['work/neighbour', 'work/own', 'home', 'data']) mkdirSync(at(name), { recursive: true });
  for (const name of ['home/notes', 'data/.secret']) writeFileSync(at(name), '');
  symlinkSync(at('home'), at('link'));
  const { program } = localSandbox();
  const run = (home: string[], ...mounts: string[]) => {
    const canary = isolationCanary({ neighbour: at('work/neighbour'), home, data: [at('data')] });
    const own = ['--bind', at('work/own'), at('work/own'), '--chdir', at('work/own')];
    const args = ['--ro-bind', '/', '/', '--dev', '/dev', ...mounts, ...own, 'bash', '-c', canary];
    return parseIsolationCanary(execFileSync(program, args, { encoding: 'utf8' }).trim());
  };
  const all = ['the workspace of another job', 'the home of the account', 'the data of Bursar'];
  assert.deepEqual(run([at('home')]), all);
  assert.deepEqual(run([at('link')]), all);
  // Under one of its two names only.
  assert.deepEqual(
    run([at('absent'), at('home')], '--tmpfs', at('data'), '--remount-ro', at('data'), '--tmpfs', at('work')),
    [all[1]],
  );
  // The home contains nothing but the workspace of the job itself.
  assert.deepEqual(run(['/', folder], '--tmpfs', folder, '--dir', at('work/own'), '--remount-ro', folder), []);
});

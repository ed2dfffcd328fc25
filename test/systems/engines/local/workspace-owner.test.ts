import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type LocalHarness, localHarness } from '../../../engines/local/harness.ts';
import { eventually, neverAborted, waitUntilFinished } from '../../../engines/observing.ts';
import { shellLine, writeInput } from '../../../engines/test-jobs.ts';

const needsRoot = { skip: process.getuid?.() !== 0 && 'only root can start jobs as another account' };
/** An account that need not exist. */
const account = { uid: 54_321, gid: 54_322, name: 'jobs' };

/** Runs a test with jobs of the account that are not isolated. `outside` is a folder of root that everybody can enter. */
function accountTest(title: string, body: (h: LocalHarness, outside: string) => Promise<void>): void {
  test(title, needsRoot, async () => {
    const h = await localHarness({ account });
    try {
      await chmod(h.root, 0o711);
      const outside = join(h.root, 'outside');
      await mkdir(outside);
      await writeFile(join(outside, 'precious'), '');
      await chmod(outside, 0o755);
      await body(h, outside);
    } finally {
      await h.close();
    }
  });
}

/** Starts a process of the account, as another job could. */
async function attack(program: string, ...args: string[]): Promise<ChildProcess> {
  const attacker = spawn(process.execPath, ['--eval', program, ...args], { ...account, cwd: '/', stdio: 'pipe' });
  await once(attacker.stdout, 'data');
  return attacker;
}

accountTest(
  'a folder that becomes a link while a workspace is given away gives away nothing else',
  async (h, outside) => {
    const job = await h.newJob();
    const { directory } = job.workspace;
    for (let i = 0; i < 1000; i += 1) await writeInput(job, `d${i}/precious`, '');
    const program = `
    const fs = require('node:fs');
    const [, directory, target] = process.argv;
    process.stdout.write('ready');
    for (let i = 0; i < 1000; ) {
      // In another order than that of the folder.
      const name = (i * 607) % 1000;
      try { fs.renameSync(directory + '/d' + name, directory + '/r' + name); fs.symlinkSync(target, directory + '/d' + name); i += 1; }
      catch (error) { if (!['EACCES', 'ENOENT'].includes(error.code)) throw error; }
    }`;
    const attacker = await attack(program, directory, outside);
    const exit = once(attacker, 'exit');
    await h.engine.submit(job, neverAborted);
    await waitUntilFinished(h.engine, job.jobId);
    assert.deepEqual(await exit, [0, null], 'the account has all of its folders in the end');
    assert.equal((await stat(join(outside, 'precious'))).uid, 0);
  },
);

accountTest(
  'a folder that becomes a link while temporary files are removed removes nothing else',
  async (h, outside) => {
    const folders = 'cd "$TMPDIR" && touch first && mkdir -p d{0..59}/e && touch d{0..59}/e/{0..9} && chmod -R a+w .';
    const job = await h.newJob(shellLine(`${folders}; touch ready; until [ -e go ]; do sleep 0.05; done`));
    const folder = `${job.workspace.directory}.tmp`;
    await h.engine.submit(job, neverAborted);
    await eventually('the job has created folders', async () => existsSync(join(folder, 'ready')));
    const program = `
    const fs = require('node:fs');
    const [, folder, target] = process.argv;
    process.chdir(folder);
    const swap = (i) => { try { fs.renameSync('d' + i, 'r' + i); fs.symlinkSync(target, 'd' + i); } catch {} };
    const swapBack = (i) => { try { fs.unlinkSync('d' + i); fs.renameSync('r' + i, 'd' + i); } catch {} };
    process.stdout.write('ready');
    for (let i = 0; fs.existsSync('first'); i = (i + 1) % 60) { swap(i); swapBack(i); }
    for (let i = 60; i > 0; i -= 1) swap(i - 1);`;
    const attacker = await attack(program, folder, outside);
    const exit = once(attacker, 'exit');
    await writeFile(join(folder, 'go'), '');
    await waitUntilFinished(h.engine, job.jobId);
    attacker.kill('SIGKILL');
    await exit;
    assert.deepEqual(await readdir(outside), ['precious']);
  },
);

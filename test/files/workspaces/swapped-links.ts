import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Workspaces } from '../../../src/files/workspaces/workspaces.ts';
import { notAborted } from '../../support/signals.ts';
import { temporaryFolder } from '../temporary.ts';
import { hostileLimits } from '../zip/hostile-zips.ts';
import { jobId, measureBytes } from './reader-setup.ts';

/**
 * Swaps the folders in its working directory for links and back, as fast as possible. When the first file was removed, it
 * leaves links in the places of all folders.
 */
const swapperScript = `
const fs = require('node:fs');
const [, target] = process.argv;
const swap = (i) => { try { fs.renameSync('d' + i, 'r' + i); fs.symlinkSync(target, 'd' + i); } catch {} };
const swapBack = (i) => { try { fs.unlinkSync('d' + i); fs.renameSync('r' + i, 'd' + i); } catch {} };
process.stdout.write('ready');
for (let i = 0; fs.existsSync('first'); i = (i + 1) % 60) { swap(i); swapBack(i); }
for (let i = 60; i > 0; i -= 1) swap(i - 1);`;

/**
 * Measures and removes a workspace while its job puts links to a folder outside in the place of its folders. Nothing of
 * the folder outside may be counted or changed.
 */
export async function assertLinksNotFollowed(
  t: TestContext,
  makeWorkspaces: (root: string) => Workspaces,
  measurements: number,
): Promise<void> {
  const folder = await temporaryFolder(t);
  const workspaces = makeWorkspaces(join(folder, 'workspaces'));
  const outside = join(folder, 'outside');
  await mkdir(join(outside, 'deep'), { recursive: true });
  for (const name of ['bursar.db', 'deep/file']) await writeFile(join(outside, name), 'precious');
  await chmod(outside, 0o755);
  await workspaces.stage(jobId, null, hostileLimits, notAborted);
  const { directory } = workspaces.pathsOf(jobId);
  await writeFile(join(directory, 'first'), '');
  for (let i = 0; i < 60; i += 1) await mkdir(join(directory, `d${i}`, 'e'), { recursive: true });
  const swapper = spawn(process.execPath, ['--eval', swapperScript, outside], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exit = once(swapper, 'exit');
  try {
    await once(swapper.stdout, 'data');
    for (let i = 0; i < measurements; i += 1) assert.equal(await measureBytes(workspaces), 0);
    // The job changes its folders, so the removal may fail. It is then repeated.
    await workspaces.remove(jobId, notAborted).catch(() => undefined);
  } finally {
    swapper.kill('SIGKILL');
    await exit;
  }
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual((await readdir(outside, { recursive: true })).sort(), ['bursar.db', 'deep', 'deep/file']);
  assert.equal((await stat(outside)).mode & 0o777, 0o755);
}

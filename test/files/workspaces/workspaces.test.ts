import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, link, mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import { isLongRun } from '../../support/long-run.ts';
import { notAborted } from '../../support/signals.ts';
import { runUnprivileged, temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from '../zip/hostile-zips.ts';
import { allocateHiddenSpace, assertEntries, measureBytes } from './reader-setup.ts';
import { assertLinksNotFollowed } from './swapped-links.ts';

const jobId = 'BURSAR-JOB-TOOL-0123456789ABCDEF0123456789ABCDEF';

async function setUp(t: TestContext) {
  const folder = await temporaryFolder(t);
  const root = join(folder, 'workspaces');
  const workspaces = createWorkspaces(root);
  const saveZip = async (bytes: Buffer) => {
    const path = join(folder, 'upload.zip');
    await writeFile(path, bytes);
    return { kind: 'file', path } as const;
  };
  const stage = async (bytes: Buffer | null) =>
    await workspaces.stage(jobId, bytes === null ? null : await saveZip(bytes), hostileLimits, notAborted);
  return { folder, root, workspaces, saveZip, stage, paths: workspaces.pathsOf(jobId) };
}

/** Runs a script, the last argument, in a process of its own. */
async function runNode(args: readonly string[], cwd: string) {
  const child = spawn(process.execPath, [...args.slice(0, -1), '--eval', args.at(-1) ?? ''], { cwd, stdio: 'inherit' });
  assert.deepEqual(await once(child, 'exit'), [0, null]);
}

test('pathsOf returns the paths of files, stdout and stderr', () => {
  assert.deepEqual(createWorkspaces('/srv/jobs').pathsOf('A-1'), {
    directory: '/srv/jobs/A-1/files',
    stdout: '/srv/jobs/A-1/stdout',
    stderr: '/srv/jobs/A-1/stderr',
  });
});

test('stage creates a workspace with the files of the zip, with access only for the owner', async (t) => {
  const { root, stage, paths } = await setUp(t);
  await stage(await makeZip({ 'run.sh': { content: 'echo', mode: 0o100755 }, 'data/in': 'hello' }));
  assert.equal(await readFile(join(paths.directory, 'data/in'), 'utf8'), 'hello');
  assert.equal((await stat(join(paths.directory, 'run.sh'))).mode & 0o777, 0o755);
  assert.equal((await stat(paths.directory)).mode & 0o777, 0o700);
  assert.deepEqual(await readdir(root), [jobId]);
});

test('stage without a zip creates an empty folder', async (t) => {
  const { stage, paths } = await setUp(t);
  await stage(null);
  assert.deepEqual(await readdir(paths.directory), []);
});

test('stage deletes the files of an interrupted attempt', async (t) => {
  const { root, stage, paths } = await setUp(t);
  await mkdir(join(root, `${jobId}.partial`, 'earlier', 'files'), { recursive: true });
  await writeFile(join(root, `${jobId}.partial`, 'earlier', 'files', 'half'), 'half');
  await stage(await makeZip({ new: 'new' }));
  assert.deepEqual(await readdir(root), [jobId]);
  assert.deepEqual(await readdir(join(root, jobId)), ['files']);
  assert.deepEqual(await readdir(paths.directory), ['new']);
});

test('stage does not change an existing workspace, whose job may be running', async (t) => {
  const { root, stage, paths } = await setUp(t);
  await stage(await makeZip({ input: 'old' }));
  await writeFile(paths.stdout, 'output');
  await writeFile(join(paths.directory, 'result'), 'precious');
  await stage(await makeZip({ input: 'new' }));
  assert.deepEqual(await readdir(root), [jobId]);
  assert.deepEqual((await readdir(join(root, jobId))).sort(), ['files', 'stdout']);
  assert.deepEqual((await readdir(paths.directory)).sort(), ['input', 'result']);
  assert.equal(await readFile(join(paths.directory, 'input'), 'utf8'), 'old');
});

for (const { name, bytes } of [...forgedZips, ...hostileZips.slice(0, 6)]) {
  test(`stage rejects a zip ${name}, and leaves no workspace`, async (t) => {
    const { root, stage } = await setUp(t);
    await assert.rejects(stage(bytes), { code: 'invalid_zip' });
    assert.deepEqual(await readdir(root), []);
  });
}

test('stage does not reveal the path of a missing zip', async (t) => {
  const { folder, root, workspaces } = await setUp(t);
  await assert.rejects(
    workspaces.stage(jobId, { kind: 'file', path: join(folder, 'gone.zip') }, hostileLimits, notAborted),
    (error: Error) => {
      assert.equal(error.message.includes(folder), false);
      return true;
    },
  );
  assert.deepEqual(await readdir(root), []);
});

test('a process killed during stage leaves no workspace, and the next call creates it', async (t) => {
  const { root, saveZip, workspaces, paths } = await setUp(t);
  const files = Array.from({ length: 900 }, (_, i) => [`f${i}`, randomBytes(5000)] as const);
  const zip = await saveZip(await makeZip(Object.fromEntries(files)));
  const script = `
    const { createWorkspaces } = await import(${JSON.stringify(new URL('../../../src/files/workspaces/workspaces.ts', import.meta.url))});
    await createWorkspaces(process.argv[1]).stage(process.argv[2], { kind: 'file', path: process.argv[3] }, ${JSON.stringify(hostileLimits)}, new AbortController().signal);`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script, root, jobId, zip.path], {
    stdio: 'inherit',
  });
  const exit = once(child, 'exit');
  const unpacked = () => readdir(join(root, `${jobId}.partial`), { recursive: true }).catch(() => []);
  while ((await unpacked()).length < 10 && child.exitCode === null) await nextTurn();
  child.kill('SIGKILL');
  const [exitCode] = await exit;
  assert.equal(exitCode, null, 'the child exited before it could be killed');
  assert.deepEqual(await readdir(root), [`${jobId}.partial`]);
  await workspaces.stage(jobId, zip, hostileLimits, notAborted);
  assert.deepEqual(await readdir(root), [jobId]);
  assert.equal((await readdir(paths.directory)).length, files.length);
});

test('measure returns 0 if there is no workspace', async (t) => {
  const { workspaces } = await setUp(t);
  assert.equal(await measureBytes(workspaces), 0);
});

test('measure sums the files in all folders and the logs', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(await makeZip({ a: '12345', 'b/c/d': '1234', 'e/': '' }));
  await writeFile(paths.stdout, '123');
  await writeFile(paths.stderr, '12');
  await writeFile(Buffer.concat([Buffer.from(`${paths.directory}/`), Buffer.from([0xff, 0xfe])]), '1');
  assert.equal(await measureBytes(workspaces), 15);
});

test('measure does not follow links, and counts a file with several hard links once', async (t) => {
  const { folder, workspaces, stage, paths } = await setUp(t);
  await stage(await makeZip({ a: '12345' }));
  await writeFile(join(folder, 'elsewhere'), 'x'.repeat(1000));
  await symlink(folder, join(paths.directory, 'folder'));
  await symlink(join(folder, 'elsewhere'), join(paths.directory, 'file'));
  await symlink('loop', join(paths.directory, 'loop'));
  await link(join(paths.directory, 'a'), join(paths.directory, 'b'));
  assert.equal(await measureBytes(workspaces), 5);
});

test('measure counts files larger than 32 bits', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(null);
  await writeFile(join(paths.directory, 'sparse'), '');
  await truncate(join(paths.directory, 'sparse'), 5_000_000_000);
  assert.equal(await measureBytes(workspaces), 5_000_000_000);
});

test('measure counts many files in one folder and in many folders', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(null);
  for (let i = 0; i < 400; i += 1) await writeFile(join(paths.directory, `f${i}`), 'x');
  for (let i = 0; i < 100; i += 1) {
    await mkdir(join(paths.directory, `d${i}`));
    await writeFile(join(paths.directory, `d${i}`, 'f'), 'xy');
  }
  assert.equal(await measureBytes(workspaces), 600);
});

test('measure needs little memory for folders that are nested deeply', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(null);
  const depth = isLongRun ? 3000 : 500;
  await runNode([`for (let i = 0; i < ${depth}; i += 1) { fs.mkdirSync('d'); process.chdir('d'); }`], paths.directory);
  const module = new URL('../../../src/files/workspaces/workspaces.ts', import.meta.url);
  const measurement = `const { measureTree } = await import('${module}');
    const { entries } = await measureTree('.', AbortSignal.any([]), Infinity);
    if (entries !== ${depth}) throw new Error(String(entries));`;
  // A path for each of 3000 folders would need 36 MB.
  await runNode(['--max-old-space-size=24', '--input-type=module', measurement], paths.directory);
  await workspaces.remove(jobId, notAborted);
});

test('measure succeeds while files disappear', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(null);
  const names = Array.from({ length: 300 }, (_, i) => join(paths.directory, `d${i}`));
  for (const name of names) {
    await mkdir(name);
    await writeFile(join(name, 'f'), 'x');
  }
  let isRemoving = true;
  const removal = Promise.all(names.map((name) => rm(name, { recursive: true }))).finally(() => {
    isRemoving = false;
  });
  while (isRemoving) assert.ok(((await measureBytes(workspaces)) ?? 0) <= names.length);
  await removal;
  assert.equal(await measureBytes(workspaces), 0);
});

test('measure counts the files in folders that their owner may not read, at any depth', async (t) => {
  await runUnprivileged(async () => {
    const { root, workspaces, stage, paths } = await setUp(t);
    await stage(await makeZip({ a: '12345', 'locked/deep/b': '1234', 'unsearchable/c': '123', 'readonly/d': '12' }));
    await chmod(join(paths.directory, 'locked/deep'), 0o300);
    await chmod(join(paths.directory, 'locked'), 0o000);
    await chmod(join(paths.directory, 'unsearchable'), 0o400);
    await chmod(join(paths.directory, 'readonly'), 0o500);
    await chmod(join(root, jobId), 0o300);
    assert.equal(await measureBytes(workspaces), 14);
    assert.equal((await stat(join(paths.directory, 'readonly'))).mode & 0o777, 0o500);
  });
});

test('measure counts space that was allocated beyond the end of a file', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(null);
  await allocateHiddenSpace(join(paths.directory, 'hidden'), 20_000_000);
  assert.ok(((await measureBytes(workspaces)) ?? 0) >= 20_000_000);
});

test('measure counts files, folders and links, and stops after the maximum', async (t) => {
  const { workspaces, stage, paths } = await setUp(t);
  await stage(await makeZip({ a: '12345', 'b/c/d': '1234', 'e/': '' }));
  await symlink('a', join(paths.directory, 'link'));
  await assertEntries(workspaces);
});

test('remove deletes a workspace with its logs, and does nothing if repeated', async (t) => {
  const { root, workspaces, stage, paths } = await setUp(t);
  await stage(await makeZip({ 'a/b': 'x' }));
  await writeFile(paths.stdout, 'output');
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
  await workspaces.remove(jobId, notAborted);
});

test('remove deletes what a crash left of an earlier removal or attempt', async (t) => {
  const { root, workspaces } = await setUp(t);
  await mkdir(join(root, `${jobId}.removed`, 'files'), { recursive: true });
  await mkdir(join(root, `${jobId}.partial`, 'files'), { recursive: true });
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
});

test('remove deletes locked folders and read-only files', async (t) => {
  await runUnprivileged(async () => {
    const { root, workspaces, stage, paths } = await setUp(t);
    await stage(await makeZip({ 'locked/deep/a': 'x', 'readonly/b': 'x', 'unsearchable/c': 'x' }));
    await chmod(join(paths.directory, 'readonly/b'), 0o400);
    await chmod(join(paths.directory, 'readonly'), 0o500);
    await chmod(join(paths.directory, 'unsearchable'), 0o600);
    await chmod(join(paths.directory, 'locked/deep'), 0o000);
    await chmod(join(paths.directory, 'locked'), 0o000);
    await chmod(paths.directory, 0o000);
    await chmod(join(root, jobId), 0o000);
    await workspaces.remove(jobId, notAborted);
    assert.deepEqual(await readdir(root), []);
  });
});

test('remove deletes links, but not their targets', async (t) => {
  const { folder, root, workspaces, stage, paths } = await setUp(t);
  await stage(null);
  await mkdir(join(folder, 'precious'));
  await writeFile(join(folder, 'precious', 'file'), 'precious');
  await symlink(join(folder, 'precious'), join(paths.directory, 'link'));
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
  assert.equal(await readFile(join(folder, 'precious', 'file'), 'utf8'), 'precious');
});

test('remove and measure do not follow links that a job puts in the place of folders meanwhile', async (t) => {
  await assertLinksNotFollowed(t, (root) => createWorkspaces(root), isLongRun ? 10 : 3);
});

test('remove deletes all the rest while the job deletes folders too', async (t) => {
  const { root, workspaces, stage, paths } = await setUp(t);
  await stage(null);
  for (let i = 0; i < 300; i += 1) await mkdir(join(paths.directory, 'd', `e${i}`, 'f'), { recursive: true });
  const script = `process.stdout.write('ready');
    for (let i = 0; i < 300; i += 1) fs.rmSync('e' + i, { recursive: true, force: true });`;
  const cwd = join(paths.directory, 'd');
  const deleter = spawn(process.execPath, ['--eval', script], { cwd, stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => deleter.kill('SIGKILL'));
  await once(deleter.stdout, 'data');
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
});

test('remove deletes files whose names are not UTF-8', async (t) => {
  const { root, workspaces, stage, paths } = await setUp(t);
  await stage(null);
  const folder = Buffer.concat([Buffer.from(`${paths.directory}/`), Buffer.from([0xff, 0xfe])]);
  await mkdir(folder);
  await writeFile(Buffer.concat([folder, Buffer.from([0x2f, 0x80])]), 'x');
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
});

test('remove deletes folders whose paths exceed PATH_MAX', async (t) => {
  const { root, workspaces, stage, paths } = await setUp(t);
  await stage(null);
  const script = `for (let i = 0; i < 60; i += 1) { fs.mkdirSync('${'x'.repeat(200)}'); process.chdir('${'x'.repeat(200)}'); }
    fs.writeFileSync('file', 'deep');`;
  await runNode([script], paths.directory);
  await workspaces.remove(jobId, notAborted);
  assert.deepEqual(await readdir(root), []);
});

test('invalid job ids are rejected', async (t) => {
  const { workspaces } = await setUp(t);
  for (const invalidId of ['', '..', '../A', 'A/B', 'a', 'A.partial', 'A\n']) {
    assert.throws(() => workspaces.pathsOf(invalidId), { code: 'internal' });
    await assert.rejects(workspaces.stage(invalidId, null, hostileLimits, notAborted), { code: 'internal' });
    await assert.rejects(workspaces.measure([invalidId], notAborted), { code: 'internal' });
    await assert.rejects(workspaces.remove(invalidId, notAborted), { code: 'internal' });
  }
});

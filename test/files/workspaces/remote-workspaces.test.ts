import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, link, mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRemoteWorkspaces } from '../../../src/files/workspaces/remote/remote-workspaces.ts';
import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import type { ZipSource } from '../../../src/files/zip/zip-source.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import type { Shell } from '../../../src/shell/shell.ts';
import { createSshShell, type SshShellOptions } from '../../../src/shell/ssh-shell.ts';
import { startSshd } from '../../support/sshd.ts';
import { temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from '../zip/hostile-zips.ts';

const jobId = 'BURSAR-JOB-TOOL-0123456789ABCDEF0123456789ABCDEF';

/** How a Bursar of its own, that is to be killed, makes the same shell. */
type Recipe = { ssh: SshShellOptions } | { local: true };

function contract(name: string, start: () => Promise<{ shell: Shell; recipe: Recipe; close(): Promise<void> }>) {
  describe(`remote workspaces over ${name}`, () => {
    let place: Awaited<ReturnType<typeof start>>;
    before(async () => {
      place = await start();
    });
    after(() => place.close());

    async function setUp(t: TestContext, shell = place.shell) {
      const folder = await temporaryFolder(t);
      const root = join(folder, "it's the root");
      const staging = join(folder, 'staging');
      const workspaces = createRemoteWorkspaces({ shell, root, staging });
      const saveZip = async (bytes: Buffer) => {
        const path = join(folder, 'upload.zip');
        await writeFile(path, bytes);
        return { kind: 'file', path } as const;
      };
      const stage = async (bytes: Buffer | null) =>
        await workspaces.stage(jobId, bytes === null ? null : await saveZip(bytes), hostileLimits);
      const names = async (path = root): Promise<string[]> => await readdir(path).catch(() => []);
      return { folder, root, staging, workspaces, saveZip, stage, names, paths: workspaces.pathsOf(jobId) };
    }

    test('a staged workspace has the files of the zip, for their owner only', async (t) => {
      const { root, staging, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ 'run.sh': { content: 'echo', mode: 0o100755 }, 'data/in': 'hello', 'e/': '' }));
      assert.equal(paths.directory, join(root, jobId, 'files'));
      assert.equal(await readFile(join(paths.directory, 'data/in'), 'utf8'), 'hello');
      assert.equal((await stat(join(paths.directory, 'run.sh'))).mode & 0o777, 0o755);
      assert.equal((await stat(join(paths.directory, 'data/in'))).mode & 0o777, 0o644);
      assert.equal((await stat(paths.directory)).mode & 0o777, 0o700);
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual((await names(paths.directory)).sort(), ['data', 'e', 'run.sh']);
      assert.deepEqual(await names(staging), [], 'nothing stays on this host');
    });

    test('a workspace without a zip is an empty folder', async (t) => {
      const { stage, names, paths } = await setUp(t);
      await stage(null);
      assert.deepEqual(await readdir(paths.directory), []);
      assert.deepEqual(await names(), [jobId]);
    });

    test('500 small files and a large one arrive as they are', async (t) => {
      const { stage, paths } = await setUp(t);
      const contents = Array.from({ length: 500 }, (_, i) => [`d${i % 7}/f${i}`, randomBytes(i)] as const);
      const large = ['large', randomBytes(3_000_000)] as const;
      await stage(await makeZip(Object.fromEntries([...contents, large])));
      for (const [path, content] of [...contents, large]) {
        assert.equal(content.equals(await readFile(join(paths.directory, path))), true, path);
      }
    });

    test('staging leaves nothing of a try that broke off', async (t) => {
      const { root, stage, names, paths } = await setUp(t);
      await mkdir(join(root, `${jobId}.partial`, 'earlier', 'files'), { recursive: true });
      await writeFile(join(root, `${jobId}.partial`, 'earlier', 'files', 'half'), 'half');
      await stage(await makeZip({ new: 'new' }));
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual(await names(join(root, jobId)), ['files']);
      assert.deepEqual(await names(paths.directory), ['new']);
    });

    test('a workspace that is there stays as it is when it is staged again: its job may be running', async (t) => {
      const { root, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ input: 'old' }));
      await writeFile(paths.stdout, 'output');
      await stage(await makeZip({ input: 'new' }));
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual(await names(join(root, jobId)), ['files', 'stdout']);
      assert.equal(await readFile(join(paths.directory, 'input'), 'utf8'), 'old');
    });

    test('a zip that is refused leaves no workspace, here or there', async (t) => {
      const { staging, stage, names } = await setUp(t);
      for (const { name: kind, bytes } of [...forgedZips, ...hostileZips.slice(0, 6)]) {
        await assert.rejects(stage(bytes), { code: 'invalid_zip' }, kind);
        assert.deepEqual(await names(), [], kind);
        assert.deepEqual(await names(staging), [], kind);
      }
    });

    test('what is measured is what the local workspaces measure', async (t) => {
      const { folder, root, workspaces, stage, paths } = await setUp(t);
      assert.equal(await workspaces.measureBytes(jobId), 0);
      await stage(await makeZip({ a: '12345', 'b/c/d': '1234', 'e/': '' }));
      await writeFile(join(paths.directory, 'new\nf 1 1:1 99999'), '1');
      await writeFile(paths.stdout, '123');
      await writeFile(Buffer.concat([Buffer.from(`${paths.directory}/`), Buffer.from([0xff, 0xfe])]), '1');
      await writeFile(join(folder, 'elsewhere'), 'x'.repeat(1000));
      await symlink(folder, join(paths.directory, 'folder'));
      await symlink('loop', join(paths.directory, 'loop'));
      await link(join(paths.directory, 'a'), join(paths.directory, 'same'));
      await writeFile(join(paths.directory, 'sparse'), '');
      await truncate(join(paths.directory, 'sparse'), 5_000_000_000);
      assert.equal(await workspaces.measureBytes(jobId), 5_000_000_014);
      assert.equal(await createWorkspaces(root).measureBytes(jobId), 5_000_000_014);
    });

    test('jobs are listed by whatever is left of them, on either side', async (t) => {
      const { root, staging, workspaces, stage } = await setUp(t);
      assert.deepEqual(await workspaces.list(), []);
      await stage(null);
      for (const name of ['A-1.partial', 'A-2.removed', 'A-1', 'not a job', '.hidden']) await mkdir(join(root, name));
      await mkdir(join(staging, 'A-3'));
      assert.deepEqual((await workspaces.list()).sort(), ['A-1', 'A-2', 'A-3', jobId]);
      for (const id of await workspaces.list()) await workspaces.remove(id);
      assert.deepEqual(await workspaces.list(), []);
    });

    test('a removed workspace is gone with its output, and removing it again does nothing', async (t) => {
      const { folder, workspaces, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ 'a/b': 'x' }));
      await writeFile(paths.stdout, 'output');
      await mkdir(join(folder, 'precious'));
      await symlink(join(folder, 'precious'), join(paths.directory, 'link'));
      await workspaces.remove(jobId);
      assert.deepEqual(await names(), []);
      await workspaces.remove(jobId);
      assert.equal((await stat(join(folder, 'precious'))).isDirectory(), true);
    });

    test('a root that cannot be used is a failure, not an empty list', async (t) => {
      const { root, workspaces, stage } = await setUp(t);
      await writeFile(root, 'not a folder');
      const internal = { name: 'BursarError', code: 'internal' };
      await assert.rejects(workspaces.list(), internal);
      await assert.rejects(stage(null), internal);
      await assert.rejects(stage(await makeZip({ a: 'x' })), internal);
    });

    test('a Bursar killed at any moment of staging leaves the whole workspace or none', async (t) => {
      const { root, staging, saveZip, workspaces, names, paths } = await setUp(t);
      const files = Array.from({ length: 900 }, (_, i) => [`f${i}`, randomBytes(5000)] as const);
      const zip = await saveZip(await makeZip(Object.fromEntries(files)));
      let kills = 0;
      for (let round = 0; round < 5; round += 1) {
        const child = startStaging({ recipe: place.recipe, root, staging, jobId, zip });
        const exit = once(child, 'exit');
        // From the first file on, each time a little later.
        const isArriving = async () => (await names(join(root, `${jobId}.partial`))).length > 0;
        while (child.exitCode === null && !(await isArriving())) await sleep(2);
        await sleep(round * 20);
        child.kill('SIGKILL');
        const [code] = await exit;
        if (code === null) kills += 1;
        if ((await names()).includes(jobId)) assert.equal((await names(paths.directory)).length, files.length);
      }
      assert.equal(kills > 0, true, 'every child was done before it could be killed');
      await workspaces.stage(jobId, zip, hostileLimits);
      assert.deepEqual(await names(), [jobId]);
      assert.equal((await readdir(paths.directory)).length, files.length);
    });

    test('ids that are none are refused', async (t) => {
      const { workspaces } = await setUp(t);
      for (const wrong of ['', '..', '../A', 'A/B', 'a', 'A.partial', 'A\n']) {
        assert.throws(() => workspaces.pathsOf(wrong), { code: 'internal' });
        await assert.rejects(workspaces.stage(wrong, null, hostileLimits), { code: 'internal' });
        await assert.rejects(workspaces.measureBytes(wrong), { code: 'internal' });
        await assert.rejects(workspaces.remove(wrong), { code: 'internal' });
      }
    });

    test('folders that a job locked are measured as far as they can be seen, and removed', async (t) => {
      const { folder, root, stage, names, paths, workspaces } = await setUp(t, unprivileged(place.shell));
      for (const open of [folder, join(folder, "it's the root")]) {
        await mkdir(open, { recursive: true });
        await chmod(open, 0o777);
      }
      await stage(await makeZip({ a: '12345', 'locked/deep/b': '1234', 'unsearchable/c': '123', 'readonly/d': '12' }));
      await chmod(join(paths.directory, 'locked/deep'), 0o000);
      await chmod(join(paths.directory, 'locked'), 0o000);
      await chmod(join(paths.directory, 'unsearchable'), 0o400);
      await chmod(join(paths.directory, 'readonly'), 0o500);
      assert.equal(await workspaces.measureBytes(jobId), 7);
      await chmod(join(root, jobId), 0o000);
      await workspaces.remove(jobId);
      assert.deepEqual(await names(), []);
    });
  });
}

/** Runs as somebody to whom modes apply: root may do anything, and would see no difference. */
function unprivileged(shell: Shell): Shell {
  if (process.getuid?.() !== 0) return shell;
  const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--'];
  return { ...shell, run: (argv, options) => shell.run([...nobody, ...argv], options) };
}

function startStaging(args: { recipe: Recipe; root: string; staging: string; jobId: string; zip: ZipSource }) {
  const at = (path: string) => JSON.stringify(new URL(`../../../src/${path}`, import.meta.url));
  const script = `
    const { createRemoteWorkspaces } = await import(${at('files/workspaces/remote/remote-workspaces.ts')});
    const { createSshShell } = await import(${at('shell/ssh-shell.ts')});
    const { createLocalShell } = await import(${at('shell/local-shell.ts')});
    const { recipe, root, staging, jobId, zip } = JSON.parse(process.argv[1]);
    const shell = recipe.ssh ? createSshShell(recipe.ssh) : createLocalShell({ environment: {} });
    await createRemoteWorkspaces({ shell, root, staging }).stage(jobId, zip, ${JSON.stringify(hostileLimits)});`;
  const argv = ['--input-type=module', '--eval', script, JSON.stringify(args)];
  return spawn(process.execPath, argv, { stdio: 'inherit' });
}

contract('the local shell', async () => {
  const shell = createLocalShell({ environment: {} });
  return { shell, recipe: { local: true }, close: () => shell.close() };
});

contract('ssh', async () => {
  const sshd = await startSshd();
  const shell = createSshShell(sshd.options);
  const close = async () => {
    await shell.close();
    await sshd.close();
  };
  return { shell, recipe: { ssh: sshd.options }, close };
});

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, link, mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRemoteWorkspaces } from '../../../../src/files/workspaces/remote/remote-workspaces.ts';
import { commitScript } from '../../../../src/files/workspaces/remote/write-scripts.ts';
import { createWorkspaces } from '../../../../src/files/workspaces/workspaces.ts';
import type { ZipSource } from '../../../../src/files/zip/zip-content.ts';
import { createLocalShell } from '../../../../src/shell/local-shell.ts';
import type { Shell } from '../../../../src/shell/shell.ts';
import { createSshShell, type SshShellOptions } from '../../../../src/shell/ssh-shell.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { allocateHiddenSpace, assertEntries, measureBytes } from '../../../files/workspaces/reader-setup.ts';
import { assertLinksNotFollowed } from '../../../files/workspaces/swapped-links.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from '../../../files/zip/hostile-zips.ts';
import { notAborted } from '../../../support/signals.ts';
import { startSshd } from '../../../support/sshd.ts';

const jobId = 'BURSAR-JOB-TOOL-0123456789ABCDEF0123456789ABCDEF';

/** Serialisable options, with which a child process creates the same shell. */
type ShellOptions = { ssh: SshShellOptions } | { local: true };

function remoteContract(
  label: string,
  start: () => Promise<{ shell: Shell; shellOptions: ShellOptions; close(): Promise<void> }>,
) {
  describe(`createRemoteWorkspaces over ${label}`, () => {
    let environment: Awaited<ReturnType<typeof start>>;
    before(async () => {
      environment = await start();
    });
    after(() => environment.close());

    async function setUp(t: TestContext, shell = environment.shell) {
      const folder = await temporaryFolder(t);
      const root = join(folder, "it's the root");
      const workspaces = createRemoteWorkspaces({ shell, root, readTimeoutMs: 30_000 });
      const saveZip = async (bytes: Buffer) => {
        const path = join(folder, 'upload.zip');
        await writeFile(path, bytes);
        return { kind: 'file', path } as const;
      };
      const stage = async (bytes: Buffer | null) =>
        await workspaces.stage(jobId, bytes === null ? null : await saveZip(bytes), hostileLimits, notAborted);
      const names = async (path = root): Promise<string[]> => await readdir(path).catch(() => []);
      return { folder, root, workspaces, saveZip, stage, names, paths: workspaces.pathsOf(jobId) };
    }

    test('stage creates a workspace with the files of the zip, with access only for the owner', async (t) => {
      const { root, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ 'run.sh': { content: 'echo', mode: 0o100755 }, 'data/in': 'hello', 'e/': '' }));
      assert.equal(paths.directory, join(root, jobId, 'files'));
      assert.equal(await readFile(join(paths.directory, 'data/in'), 'utf8'), 'hello');
      assert.equal((await stat(join(paths.directory, 'run.sh'))).mode & 0o777, 0o755);
      assert.equal((await stat(join(paths.directory, 'data/in'))).mode & 0o777, 0o644);
      assert.equal((await stat(paths.directory)).mode & 0o777, 0o700);
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual((await names(paths.directory)).sort(), ['data', 'e', 'run.sh']);
    });

    test('stage without a zip creates an empty folder', async (t) => {
      const { stage, names, paths } = await setUp(t);
      await stage(null);
      assert.deepEqual(await readdir(paths.directory), []);
      assert.deepEqual(await names(), [jobId]);
    });

    test('stage transfers 500 small files and a large one unchanged', async (t) => {
      const { stage, paths } = await setUp(t);
      const contents = Array.from({ length: 500 }, (_, i) => [`d${i % 7}/f${i}`, randomBytes(i)] as const);
      const large = ['large', randomBytes(3_000_000)] as const;
      await stage(await makeZip(Object.fromEntries([...contents, large])));
      for (const [path, content] of [...contents, large]) {
        assert.equal(content.equals(await readFile(join(paths.directory, path))), true, path);
      }
    });

    test('stage keeps long names, long paths and names of other scripts', async (t) => {
      const { stage, paths } = await setUp(t);
      const long = `${'d/'.repeat(45)}${'f'.repeat(255)}/${'g'.repeat(120)}`;
      const names = [long, 'größe/日本語.txt', `${'ö'.repeat(120)}/a`, '-dash', 'a b\'c"', '*'];
      await stage(await makeZip(Object.fromEntries(names.map((name) => [name, name]))));
      for (const name of names) assert.equal(await readFile(join(paths.directory, name), 'utf8'), name);
    });

    test('stage deletes the files of an interrupted attempt', async (t) => {
      const { root, stage, names, paths } = await setUp(t);
      await mkdir(join(root, `${jobId}.partial`, 'earlier', 'files'), { recursive: true });
      await writeFile(join(root, `${jobId}.partial`, 'earlier', 'files', 'half'), 'half');
      await stage(await makeZip({ new: 'new' }));
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual(await names(join(root, jobId)), ['files']);
      assert.deepEqual(await names(paths.directory), ['new']);
    });

    test('stage leaves the files of an attempt that starts while it commits', async (t) => {
      const { shell } = environment;
      const later = () => join(setup.root, `${jobId}.partial`, 'later', 'files');
      const run: Shell['run'] = async (argv, options) => {
        if (argv.includes(commitScript)) await mkdir(later(), { recursive: true });
        return await shell.run(argv, options);
      };
      const setup = await setUp(t, { ...shell, run });
      await setup.stage(await makeZip({ a: 'a' }));
      assert.deepEqual(await setup.names(setup.paths.directory), ['a']);
      assert.deepEqual(await readdir(join(setup.root, `${jobId}.partial`)), ['later']);
      assert.deepEqual(await readdir(later()), []);
    });

    test('stage does not change an existing workspace, whose job may be running', async (t) => {
      const { root, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ input: 'old' }));
      await writeFile(paths.stdout, 'output');
      await stage(await makeZip({ input: 'new' }));
      assert.deepEqual(await names(), [jobId]);
      assert.deepEqual(await names(join(root, jobId)), ['files', 'stdout']);
      assert.equal(await readFile(join(paths.directory, 'input'), 'utf8'), 'old');
    });

    test('stage rejects invalid zips, and leaves no files', async (t) => {
      const { stage, names } = await setUp(t);
      for (const { name, bytes } of [...forgedZips, ...hostileZips.slice(0, 6)]) {
        await assert.rejects(stage(bytes), { code: 'invalid_zip' }, name);
        assert.deepEqual(await names(), [], name);
      }
    });

    test('measure returns the same as local workspaces', async (t) => {
      const { folder, root, workspaces, stage, paths } = await setUp(t);
      assert.equal(await measureBytes(workspaces), 0);
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
      assert.equal(await measureBytes(workspaces), 5_000_000_014);
      assert.equal(await measureBytes(createWorkspaces(root)), 5_000_000_014);
    });

    test('measure counts space that was allocated beyond the end of a file', async (t) => {
      const { root, workspaces, stage, paths } = await setUp(t);
      await stage(null);
      await allocateHiddenSpace(join(paths.directory, 'hidden'), 20_000_000);
      const bytes = (await measureBytes(workspaces)) ?? 0;
      assert.ok(bytes >= 20_000_000);
      assert.equal(await measureBytes(createWorkspaces(root)), bytes);
    });

    test('measure counts files, folders and links of several jobs, and stops after the maximum', async (t) => {
      const { workspaces, stage, paths } = await setUp(t);
      await stage(await makeZip({ a: '12345', 'b/c/d': '1234', 'e/': '' }));
      await symlink('a', join(paths.directory, 'link'));
      await assertEntries(workspaces);
    });

    test('list includes jobs with any files', async (t) => {
      const { root, workspaces, stage } = await setUp(t);
      assert.deepEqual(await workspaces.list(notAborted), []);
      await stage(null);
      for (const name of ['A-1.partial', 'A-2.removed', 'A-1', 'not a job', '.hidden']) await mkdir(join(root, name));
      assert.deepEqual((await workspaces.list(notAborted)).sort(), ['A-1', 'A-2', jobId]);
      for (const id of await workspaces.list(notAborted)) await workspaces.remove(id, notAborted);
      assert.deepEqual(await workspaces.list(notAborted), []);
    });

    test('remove deletes a workspace with its logs, and does nothing if repeated', async (t) => {
      const { folder, workspaces, stage, names, paths } = await setUp(t);
      await stage(await makeZip({ 'a/b': 'x' }));
      await writeFile(paths.stdout, 'output');
      await mkdir(join(folder, 'precious'));
      await symlink(join(folder, 'precious'), join(paths.directory, 'link'));
      await workspaces.remove(jobId, notAborted);
      assert.deepEqual(await names(), []);
      await workspaces.remove(jobId, notAborted);
      assert.equal((await stat(join(folder, 'precious'))).isDirectory(), true);
    });

    test('list and stage fail if the root is unusable', async (t) => {
      const { root, workspaces, stage } = await setUp(t);
      await writeFile(root, 'not a folder');
      const internal = { name: 'BursarError', code: 'internal' };
      await assert.rejects(workspaces.list(notAborted), internal);
      await assert.rejects(stage(null), internal);
      await assert.rejects(stage(await makeZip({ a: 'x' })), internal);
    });

    test('a process killed at any moment of stage leaves a complete workspace or none', async (t) => {
      const { root, saveZip, workspaces, names, paths } = await setUp(t);
      const files = Array.from({ length: 900 }, (_, i) => [`f${i}`, randomBytes(5000)] as const);
      const zip = await saveZip(await makeZip(Object.fromEntries(files)));
      let kills = 0;
      for (let round = 0; round < 5 || kills === 0; round += 1) {
        const child = startStaging({ shellOptions: environment.shellOptions, root, jobId, zip });
        const exit = once(child, 'exit');
        // Kills the child after the first file, each round a little later. On a busy machine it may end before.
        const isArriving = async () => (await names(join(root, `${jobId}.partial`))).length > 0;
        while (child.exitCode === null && !(await isArriving())) await sleep(2);
        await sleep((round % 5) * 20);
        child.kill('SIGKILL');
        const [code] = await exit;
        if (code === null) kills += 1;
        if ((await names()).includes(jobId)) assert.equal((await names(paths.directory)).length, files.length);
      }
      await workspaces.stage(jobId, zip, hostileLimits, notAborted);
      assert.deepEqual(await names(), [jobId]);
      assert.equal((await readdir(paths.directory)).length, files.length);
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

    test('remove and measure do not follow links that a job puts in the place of folders meanwhile', async (t) => {
      const { shell } = environment;
      const makeWorkspaces = (root: string) => createRemoteWorkspaces({ shell, root, readTimeoutMs: 30_000 });
      await assertLinksNotFollowed(t, makeWorkspaces, 5);
    });

    test('measure counts the files in locked folders, and remove deletes them', async (t) => {
      const { folder, root, stage, names, paths, workspaces } = await setUp(t, unprivileged(environment.shell));
      for (const path of [folder, join(folder, "it's the root")]) {
        await mkdir(path, { recursive: true });
        await chmod(path, 0o777);
      }
      await stage(await makeZip({ a: '12345', 'locked/deep/b': '1234', 'unsearchable/c': '123', 'readonly/d': '12' }));
      await chmod(join(paths.directory, 'locked/deep'), 0o000);
      await chmod(join(paths.directory, 'locked'), 0o000);
      await chmod(join(paths.directory, 'unsearchable'), 0o400);
      await chmod(join(paths.directory, 'readonly'), 0o500);
      await chmod(join(root, jobId), 0o300);
      assert.equal(await measureBytes(workspaces), 14);
      await chmod(paths.directory, 0o000);
      await chmod(join(root, jobId), 0o000);
      await workspaces.remove(jobId, notAborted);
      assert.deepEqual(await names(), []);
    });
  });
}

/** Runs commands as an unprivileged user, because file modes do not restrict root. */
function unprivileged(shell: Shell): Shell {
  if (process.getuid?.() !== 0) return shell;
  const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--'];
  return { ...shell, run: (argv, options) => shell.run([...nobody, ...argv], options) };
}

function startStaging(args: { shellOptions: ShellOptions; root: string; jobId: string; zip: ZipSource }) {
  const toImport = (path: string) => JSON.stringify(new URL(`../../../../src/${path}`, import.meta.url));
  const script = `
    const { createRemoteWorkspaces } = await import(${toImport('files/workspaces/remote/remote-workspaces.ts')});
    const { createSshShell } = await import(${toImport('shell/ssh-shell.ts')});
    const { createLocalShell } = await import(${toImport('shell/local-shell.ts')});
    const { shellOptions, root, jobId, zip } = JSON.parse(process.argv[1]);
    const shell = shellOptions.ssh ? createSshShell(shellOptions.ssh) : createLocalShell({ environment: {} });
    await createRemoteWorkspaces({ shell, root, readTimeoutMs: 30_000 }).stage(jobId, zip, ${JSON.stringify(hostileLimits)}, new AbortController().signal);`;
  const argv = ['--input-type=module', '--eval', script, JSON.stringify(args)];
  return spawn(process.execPath, argv, { stdio: 'inherit' });
}

remoteContract('the local shell', async () => {
  const shell = createLocalShell({ environment: {} });
  return { shell, shellOptions: { local: true }, close: () => shell.close() };
});

remoteContract('ssh', async () => {
  const sshd = await startSshd();
  const shell = createSshShell(sshd.options);
  const close = async () => {
    await shell.close();
    await sshd.close();
  };
  return { shell, shellOptions: { ssh: sshd.options }, close };
});

test('uploads of one user that hang do not block those of another user', async (t) => {
  const shell = createLocalShell({ environment: {} });
  t.after(() => shell.close());
  const stopping = new AbortController();
  const hangs = (argv: readonly string[]) => argv.some((arg) => arg.includes('HANGING'));
  const hangingShell: Shell = {
    ...shell,
    run: (argv, options) => shell.run(hangs(argv) ? ['sleep', '1000'] : argv, options),
  };
  const folder = await temporaryFolder(t);
  const root = join(folder, 'workspaces');
  const workspaces = createRemoteWorkspaces({ shell: hangingShell, root, readTimeoutMs: 30_000 });
  const hanging = [1, 2, 3, 4].map((n) =>
    assert.rejects(workspaces.stage(`HANGING-${n}`, null, hostileLimits, stopping.signal, '1')),
  );
  await workspaces.stage(jobId, null, hostileLimits, AbortSignal.timeout(30_000), '2');
  assert.deepEqual(await readdir(root), [jobId]);
  stopping.abort();
  await Promise.all(hanging);
});

test('measure counts 0 for a workspace that is removed meanwhile, and measures the others', async (t) => {
  const folder = await temporaryFolder(t);
  const root = join(folder, 'workspaces');
  await mkdir(join(folder, 'bin'));
  for (const name of ['GONE', 'OTHER']) {
    await mkdir(join(root, name), { recursive: true });
    await writeFile(join(root, name, 'stdout'), '12345');
  }
  // Runs between the check of the folder and the real find.
  const find = `#!/bin/sh\nPATH=/usr/bin:/bin\ncase $1 in *GONE) rm -r "$1";; esac\nexec find "$@"\n`;
  await writeFile(join(folder, 'bin/find'), find, { mode: 0o755 });
  const shell = createLocalShell({ environment: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin` } });
  t.after(() => shell.close());
  const workspaces = createRemoteWorkspaces({ shell, root, readTimeoutMs: 30_000 });
  assert.deepEqual(
    [...(await workspaces.measure(['GONE', 'OTHER'], notAborted))],
    [
      ['GONE', { bytes: 0, entries: 0 }],
      ['OTHER', { bytes: 5, entries: 1 }],
    ],
  );
});

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { readZip } from '../../support/unzip.ts';
import { jobId, openWorkspace, outsideContent, type ReaderEnvironment, type TestWorkspace } from './reader-setup.ts';

/** An attempt to read outside the workspace, and the paths that must stay unreadable. */
interface Attack {
  name: string;
  run(workspace: TestWorkspace): Promise<void> | void;
  paths: string[];
}

const linkTo = (target: (workspace: TestWorkspace) => string, name: string, ...paths: string[]) => ({
  run: async (workspace: TestWorkspace) => {
    await mkdir(join(workspace.at(name), '..'), { recursive: true });
    await symlink(target(workspace), workspace.at(name));
  },
  paths: [name, ...paths],
});

const attacks: Attack[] = [
  { name: 'a link to a file outside', ...linkTo(({ outside }) => outside('file'), 'link') },
  { name: 'a relative link to a file outside', ...linkTo(() => '../../../outside/file', 'link') },
  { name: 'a link to a folder outside', ...linkTo(({ outside }) => outside(), 'link', 'link/file', 'link/deep/file') },
  { name: 'a link to the root', ...linkTo(() => '/', 'link', 'link/etc/passwd') },
  { name: 'a link in a deep folder', ...linkTo(({ outside }) => outside('deep'), 'a/b/c/link', 'a/b/c/link/file') },
  { name: 'a link to the workspace above', ...linkTo(() => '..', 'link', 'link/stdout', 'link/files/a') },
  { name: 'a link to /proc/self', ...linkTo(() => '/proc/self', 'link', 'link/environ', 'link/cwd/etc/passwd') },
  { name: 'a link to /proc/self/fd', ...linkTo(() => '/proc/self/fd', 'link', 'link/0', 'link/3') },
  { name: 'a link to /dev/stdin', ...linkTo(() => '/dev/stdin', 'link') },
  { name: 'a link to itself', ...linkTo(() => 'link', 'link', 'link/link') },
  { name: 'a dangling link', ...linkTo(() => 'missing', 'link') },
  {
    name: 'a chain of links',
    run: async ({ at, outside }) => {
      await symlink(outside('file'), at('one'));
      await symlink('one', at('two'));
      await symlink('two', at('three'));
    },
    paths: ['one', 'two', 'three'],
  },
  {
    name: 'a hard link to a file outside',
    run: ({ at, outside }) => link(outside('file'), at('hard')),
    paths: ['hard'],
  },
  {
    name: 'two hard links to a file outside',
    run: async ({ at, outside }) => {
      await mkdir(at('d'));
      await link(outside('file'), at('hard'));
      await link(outside('file'), at('d', 'hard'));
    },
    paths: ['hard', 'd/hard'],
  },
  { name: 'a pipe', run: ({ at }) => void execFileSync('mkfifo', [at('pipe')]), paths: ['pipe'] },
  {
    name: 'a socket',
    run: async ({ at }) => {
      const server = createServer().listen({ path: at('socket') });
      await once(server, 'listening');
      server.unref();
    },
    paths: ['socket'],
  },
  {
    name: 'a folder moved away and replaced by a link',
    run: async ({ writeFiles, at, outside }) => {
      await writeFiles({ 'deep/file': 'mine' });
      await rename(at('deep'), at('moved'));
      await symlink(outside('deep'), at('deep'));
      await rm(at('moved'), { recursive: true });
    },
    paths: ['deep', 'deep/file'],
  },
  {
    name: 'its own working directory replaced by a link',
    run: async ({ home, outside }) => {
      await rm(join(home, 'files'), { recursive: true });
      await symlink(outside(), join(home, 'files'));
    },
    paths: ['file', 'deep/file'],
  },
  {
    name: 'its whole workspace replaced by a link',
    run: async ({ home, folder }) => {
      await rename(home, `${home}.away`);
      await mkdir(join(folder, 'elsewhere'));
      await rename(join(folder, 'outside'), join(folder, 'elsewhere', 'files'));
      await symlink(join(folder, 'elsewhere'), home);
    },
    paths: ['file', 'deep/file'],
  },
];
if (process.getuid?.() === 0) {
  for (const [name, kind, major, minor] of [
    ['zero', 'c', '1', '5'],
    ['tty', 'c', '5', '0'],
    ['disk', 'b', '7', '0'],
  ] as const) {
    attacks.push({
      name: `a device like /dev/${name}`,
      run: ({ at }) => void execFileSync('mknod', [at('device'), kind, major, minor]),
      paths: ['device'],
    });
  }
}

/** Tests that every WorkspaceReader must pass for a job that tries to read outside its workspace. */
export function hostileReaderContract(label: string, start: () => Promise<ReaderEnvironment>) {
  describe(`WorkspaceReader ${label} with a hostile job`, () => {
    let environment: ReaderEnvironment;
    before(async () => {
      environment = await start();
    });
    after(() => environment.close());
    const setUp = (t: TestContext) => openWorkspace(t, environment.createWorkspaces);

    for (const { name, run, paths } of attacks) {
      test(`${name} exposes nothing and does not block`, async (t) => {
        const workspace = await setUp(t);
        await workspace.writeFiles({ regular: 'content' });
        await run(workspace);
        for (const path of paths) assert.equal(await workspace.content(path), 'file_unknown', path);
        const listed = await workspace.paths();
        assert.ok(
          listed.every((path) => path === 'regular'),
          listed.join(),
        );
        for (const [path, content] of await readZip(await buffer(await writeZip(workspace.archive())))) {
          assert.ok(['regular', 'a/', 'a/b/', 'a/b/c/', 'd/'].includes(path), path);
          assert.ok(!content.includes(outsideContent));
        }
      });
    }

    const replacements: Record<string, Attack['run']> = {
      'a link to a file outside': ({ home, outside }) => symlink(outside('file'), join(home, 'stdout')),
      'a hard link to a file outside': ({ home, outside }) => link(outside('file'), join(home, 'stdout')),
      'a pipe': ({ home }) => void execFileSync('mkfifo', [join(home, 'stdout')]),
      'a folder': async ({ home }) => void (await mkdir(join(home, 'stdout'))),
    };
    for (const [name, run] of Object.entries(replacements)) {
      test(`a log replaced by ${name} is treated as absent`, async (t) => {
        const workspace = await setUp(t);
        await workspace.writeFiles({});
        await run(workspace);
        assert.equal(await workspace.log('stdout'), undefined);
      });
    }

    test('a folder that is constantly swapped for a link, also between check and use, exposes nothing', async (t) => {
      const workspace = await setUp(t);
      await workspace.writeFiles({ 'deep/file': 'mine', 'deep/more/file': 'mine' });
      const swapper = spawn(process.execPath, ['--eval', swapperScript, workspace.at(), workspace.outside('deep')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const contentCounts = new Map<string, number>();
      try {
        await once(swapper.stdout, 'data');
        for (let round = 0; round < environment.raceRounds; round += 1) {
          for (const path of ['deep/file', 'deep/more/file']) {
            const content = await workspace.content(path);
            contentCounts.set(content, (contentCounts.get(content) ?? 0) + 1);
          }
          const sizes = new Set((await workspace.files()).map(({ size }) => size));
          assert.ok(!sizes.has(outsideContent.length), 'the list contains a file outside');
          const zip = await writeZip(workspace.archive())
            .then(buffer)
            .catch((error) => assert.equal(error.code, 'unavailable'));
          assert.ok(!zip?.includes(outsideContent), 'the archive contains a file outside');
        }
      } finally {
        swapper.kill('SIGKILL');
        await once(swapper, 'exit');
      }
      contentCounts.delete('unavailable');
      assert.deepEqual(
        [...contentCounts.keys()].filter((content) => content !== 'mine' && content !== 'file_unknown'),
        [],
      );
      assert.ok(contentCounts.size > 0);
    });

    test('folders deeper than the limit are not read', async (t) => {
      const workspace = await setUp(t);
      await workspace.writeFiles({ top: '' });
      const chain = Array.from({ length: 150 }, () => 'd').join('/');
      await mkdir(workspace.at(chain), { recursive: true });
      await writeFile(workspace.at(chain, 'bottom'), '');
      assert.deepEqual(await workspace.paths(), ['top']);
    });

    test('invalid job ids are rejected', async (t) => {
      const { workspaces } = await setUp(t);
      const signal = new AbortController().signal;
      for (const invalidId of ['', '..', '../outside', `${jobId}/files`, 'a', `${jobId}.partial`]) {
        const invalid = { jobId: invalidId, user: '1', signal };
        await assert.rejects(workspaces.openFile(invalid, ['file']), { code: 'internal' });
        await assert.rejects(Array.fromAsync(workspaces.listFiles(invalid, [])), {
          code: 'internal',
        });
        const from = { offset: 0, maxBytes: 1 };
        await assert.rejects(workspaces.readLog(invalid, 'stdout', from), { code: 'internal' });
      }
    });
  });
}

/** Swaps `deep` for a link and back as fast as possible, until its parent folder is deleted. */
const swapperScript = `
const { renameSync, symlinkSync, unlinkSync } = require('node:fs');
const [, folder, target] = process.argv;
process.chdir(folder);
process.stdout.write('ready');
for (;;) {
  try {
    renameSync('deep', '.real');
    symlinkSync(target, 'deep');
    unlinkSync('deep');
    renameSync('.real', 'deep');
  } catch { process.exit(); }
}`;

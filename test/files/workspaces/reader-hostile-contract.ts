import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { link, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { contentsOf } from '../../support/unzip.ts';
import { jobId, openWorkspace, type ReaderEnvironment, secret, type TestWorkspace } from './reader-setup.ts';

/** A trick of a job, and the paths by which it hopes to get something out. */
interface Trick {
  name: string;
  play(place: TestWorkspace): Promise<void> | void;
  paths: string[];
}

const linkTo = (target: (place: TestWorkspace) => string, name: string, ...paths: string[]) => ({
  play: async (place: TestWorkspace) => {
    await mkdir(join(place.at(name), '..'), { recursive: true });
    await symlink(target(place), place.at(name));
  },
  paths: [name, ...paths],
});

const tricks: Trick[] = [
  { name: 'a link to a file outside', ...linkTo(({ outside }) => outside('file'), 'link') },
  { name: 'a relative link that climbs out', ...linkTo(() => '../../../outside/file', 'link') },
  { name: 'a link to a folder outside', ...linkTo(({ outside }) => outside(), 'link', 'link/file', 'link/deep/file') },
  { name: 'a link to the root', ...linkTo(() => '/', 'link', 'link/etc/passwd') },
  { name: 'a link deep in folders', ...linkTo(({ outside }) => outside('deep'), 'a/b/c/link', 'a/b/c/link/file') },
  { name: 'a link to the workspace above', ...linkTo(() => '..', 'link', 'link/stdout', 'link/files/a') },
  { name: 'a link to /proc/self', ...linkTo(() => '/proc/self', 'link', 'link/environ', 'link/cwd/etc/passwd') },
  { name: 'a link to /proc/self/fd', ...linkTo(() => '/proc/self/fd', 'link', 'link/0', 'link/3') },
  { name: 'a link to /dev/stdin', ...linkTo(() => '/dev/stdin', 'link') },
  { name: 'a link to itself', ...linkTo(() => 'link', 'link', 'link/link') },
  { name: 'a link to nowhere', ...linkTo(() => 'nowhere', 'link') },
  {
    name: 'a chain of links',
    play: async ({ at, outside }) => {
      await symlink(outside('file'), at('one'));
      await symlink('one', at('two'));
      await symlink('two', at('three'));
    },
    paths: ['one', 'two', 'three'],
  },
  {
    name: 'a hard link to a file outside',
    play: ({ at, outside }) => link(outside('file'), at('hard')),
    paths: ['hard'],
  },
  {
    name: 'two hard links to a file outside',
    play: async ({ at, outside }) => {
      await mkdir(at('d'));
      await link(outside('file'), at('hard'));
      await link(outside('file'), at('d', 'hard'));
    },
    paths: ['hard', 'd/hard'],
  },
  { name: 'a pipe', play: ({ at }) => void execFileSync('mkfifo', [at('pipe')]), paths: ['pipe'] },
  {
    name: 'a socket',
    play: async ({ at }) => {
      const server = createServer().listen({ path: at('socket') });
      await once(server, 'listening');
      server.unref();
    },
    paths: ['socket'],
  },
  {
    name: 'a folder moved away and replaced by a link',
    play: async ({ put, at, outside }) => {
      await put({ 'deep/file': 'mine' });
      await rename(at('deep'), at('moved'));
      await symlink(outside('deep'), at('deep'));
      await rm(at('moved'), { recursive: true });
    },
    paths: ['deep', 'deep/file'],
  },
  {
    name: 'its own working directory replaced by a link',
    play: async ({ home, outside }) => {
      await rm(join(home, 'files'), { recursive: true });
      await symlink(outside(), join(home, 'files'));
    },
    paths: ['file', 'deep/file'],
  },
  {
    name: 'its whole workspace replaced by a link',
    play: async ({ home, folder }) => {
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
    tricks.push({
      name: `a device like /dev/${name}`,
      play: ({ at }) => void execFileSync('mknod', [at('device'), kind, major, minor]),
      paths: ['device'],
    });
  }
}

/** What holds for reading the workspace of a job that means ill, wherever it is. */
export function hostileReaderContract(name: string, start: () => Promise<ReaderEnvironment>) {
  describe(`reading workspaces ${name} of a job that means ill`, () => {
    let place: Awaited<ReturnType<typeof start>>;
    before(async () => {
      place = await start();
    });
    after(() => place.close());
    const setUp = (t: TestContext) => openWorkspace(t, place.make);

    for (const { name: trick, play, paths } of tricks) {
      test(`${trick} shows nothing, and nothing waits for it`, async (t) => {
        const here = await setUp(t);
        await here.put({ honest: 'honest' });
        await play(here);
        for (const path of paths) assert.equal(await here.content(path), 'file_unknown', path);
        const listed = await here.paths();
        assert.ok(
          listed.every((path) => path === 'honest'),
          listed.join(),
        );
        for (const [path, content] of await contentsOf(await buffer(await writeZip(here.archive())))) {
          assert.ok(['honest', 'a/', 'a/b/', 'a/b/c/', 'd/'].includes(path), path);
          assert.ok(!content.includes(secret));
        }
      });
    }

    const replacements: Record<string, Trick['play']> = {
      'a link to a file outside': ({ home, outside }) => symlink(outside('file'), join(home, 'stdout')),
      'a hard link to a file outside': ({ home, outside }) => link(outside('file'), join(home, 'stdout')),
      'a pipe': ({ home }) => void execFileSync('mkfifo', [join(home, 'stdout')]),
      'a folder': async ({ home }) => void (await mkdir(join(home, 'stdout'))),
    };
    for (const [what, play] of Object.entries(replacements)) {
      test(`a log replaced by ${what} is no log`, async (t) => {
        const here = await setUp(t);
        await here.put({});
        await play(here);
        assert.equal(await here.log('stdout'), undefined);
      });
    }

    test('a folder that is swapped for a link all the time, also between a check and its use, leaks nothing', async (t) => {
      const here = await setUp(t);
      await here.put({ 'deep/file': 'mine', 'deep/more/file': 'mine' });
      const swapping = spawn(process.execPath, ['--eval', swapper, here.at(), here.outside('deep')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const seen = new Map<string, number>();
      try {
        await once(swapping.stdout, 'data');
        for (let round = 0; round < place.rounds; round += 1) {
          for (const path of ['deep/file', 'deep/more/file']) {
            const content = await here.content(path);
            seen.set(content, (seen.get(content) ?? 0) + 1);
          }
          const sizes = new Set((await here.files()).map(({ size }) => size));
          assert.ok(!sizes.has(secret.length), 'the list shows a file outside');
          const zip = await writeZip(here.archive())
            .then(buffer)
            .catch((error) => assert.equal(error.code, 'unavailable'));
          assert.ok(!zip?.includes(secret), 'the archive has a file outside');
        }
      } finally {
        swapping.kill('SIGKILL');
        await once(swapping, 'exit');
      }
      seen.delete('unavailable');
      assert.deepEqual(
        [...seen.keys()].filter((content) => content !== 'mine' && content !== 'file_unknown'),
        [],
      );
      assert.ok(seen.size > 0);
    });

    test('a chain of folders without end keeps nobody busy', async (t) => {
      const here = await setUp(t);
      await here.put({ top: '' });
      const chain = Array.from({ length: 150 }, () => 'd').join('/');
      await mkdir(here.at(chain), { recursive: true });
      await writeFile(here.at(chain, 'bottom'), '');
      assert.deepEqual(await here.paths(), ['top']);
    });

    test('only job ids lead to workspaces', async (t) => {
      const { workspaces } = await setUp(t);
      const never = new AbortController().signal;
      for (const wrong of ['', '..', '../outside', `${jobId}/files`, 'a', `${jobId}.partial`]) {
        await assert.rejects(workspaces.openFile(wrong, ['file'], never), { code: 'internal' });
        await assert.rejects(Array.fromAsync(workspaces.listFiles(wrong, [], never)), { code: 'internal' });
        const from = { offset: 0, maxBytes: 1 };
        await assert.rejects(workspaces.readLog(wrong, 'stdout', from, never), { code: 'internal' });
      }
    });
  });
}

/** Swaps `deep` for a link and back as fast as it can, until its parent is gone. */
const swapper = `
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

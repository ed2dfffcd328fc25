import assert from 'node:assert/strict';
import { appendFile, chmod, link, mkdir, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { notAborted } from '../../support/signals.ts';
import { until } from '../../support/until.ts';
import { readZip } from '../../support/unzip.ts';
import { jobId, openWorkspace, type ReaderEnvironment } from './reader-setup.ts';

/** Names that break careless quoting in shells, lists or headers. */
const unusualNames = [
  'with space',
  "it's",
  '"quoted"',
  '-rf',
  '--help',
  '$(touch hacked)',
  '`id`',
  '*',
  '~',
  'new\nline',
  'ends with a line end\n',
  'back\\slash',
  'ünïcödé 日本',
  '%2e%2e',
  '...',
  '.hidden',
  'C:drive',
];

/** Tests that every WorkspaceReader must pass. */
export function readerContract(label: string, start: () => Promise<ReaderEnvironment>) {
  describe(`WorkspaceReader ${label}`, () => {
    let environment: ReaderEnvironment;
    before(async () => {
      environment = await start();
    });
    after(() => environment.close());
    const setUp = (t: TestContext) => openWorkspace(t, environment.createWorkspaces);

    test('a job without a workspace has no files and no logs', async (t) => {
      const { paths, content, log, archive, workspaces, root } = await setUp(t);
      for (let round = 0; round < 2; round += 1) {
        assert.deepEqual(await paths(), []);
        assert.equal(await content('run.sh'), 'file_unknown');
        assert.equal(await log('stdout'), undefined);
        assert.deepEqual(await Array.fromAsync(archive()), []);
        assert.equal(await workspaces.hasWorkspace({ jobId, user: '1', signal: new AbortController().signal }), false);
        await mkdir(root, { recursive: true });
      }
      assert.ok(workspaces.logPollMs.fast <= workspaces.logPollMs.slow);
    });

    test('listFiles returns path, size and time of the files in all folders, without the logs', async (t) => {
      const { writeFiles, at, home, files, workspaces } = await setUp(t);
      await writeFiles({ a: '12345', 'b/c/d': '1234', 'b/empty': '' });
      assert.equal(await workspaces.hasWorkspace({ jobId, user: '1', signal: new AbortController().signal }), true);
      await mkdir(at('b', 'nothing in it'));
      await writeFile(join(home, 'stdout'), 'printed');
      await mkdir(join(home, 'files.tmp'));
      await utimes(at('a'), 1_700_000_000.25, 1_700_000_000.25);
      const listed = (await files()).sort((a, b) => (a.path < b.path ? -1 : 1));
      assert.deepEqual(
        listed.map(({ path, size }) => [path, size]),
        [
          ['a', 5],
          ['b/c/d', 4],
          ['b/empty', 0],
        ],
      );
      assert.equal(listed[0]?.modifiedAt, 1_700_000_000_250);
    });

    test('listFiles and archive accept a folder, and reject a missing folder or a file', async (t) => {
      const { writeFiles, paths, archive } = await setUp(t);
      await writeFiles({ a: '', 'b/c/d': '', 'b/e': '' });
      assert.deepEqual(await paths('b'), ['b/c/d', 'b/e']);
      assert.deepEqual(await paths('b', 'c'), ['b/c/d']);
      for (const folder of [['x'], ['b', 'x'], ['a'], ['b', 'e']]) {
        await assert.rejects(paths(...folder), { code: 'file_unknown' });
        await assert.rejects(Array.fromAsync(archive(...folder)), { code: 'file_unknown' });
      }
    });

    test('openFile reads a whole file and parts of it', async (t) => {
      const { writeFiles, content } = await setUp(t);
      await writeFiles({ a: '0123456789', 'b/c': 'deep', empty: '' });
      assert.equal(await content('a'), '0123456789');
      assert.equal(await content('a', 3, 4), '3456');
      assert.equal(await content('a', 9, 1), '9');
      assert.equal(await content('b/c'), 'deep');
      assert.equal(await content('empty'), '');
      for (const path of ['A', 'b', 'b/x', 'a/b', 'x/y/z']) assert.equal(await content(path), 'file_unknown');
    });

    test('unusual names are listed, read and archived unchanged', async (t) => {
      const { writeFiles, at, paths, content, archive } = await setUp(t);
      await writeFiles(Object.fromEntries(unusualNames.map((name) => [`${name}/${name}`, name])));
      assert.deepEqual(await paths(), unusualNames.map((name) => `${name}/${name}`).sort());
      for (const name of unusualNames) assert.equal(await content(`${name}/${name}`), name);
      const zip = await readZip(await buffer(await writeZip(archive())));
      assert.deepEqual([...zip.values()].map(String).filter(Boolean).sort(), [...unusualNames].sort());
      assert.ok([...zip.keys()].every((path) => !/\\|^[A-Za-z]:/.test(path)));
      await rm(at(), { recursive: true });
    });

    test('a large file is read completely, and its stream can be destroyed at any time', async (t) => {
      const { writeFiles, open, at } = await setUp(t);
      const bytes = Buffer.alloc(9_000_001, 'some text that goes on and on; ');
      await writeFiles({ large: bytes });
      const file = await open('large');
      assert.ok((await buffer(await file.read(0, file.size))).equals(bytes));
      // More streams than the concurrency limit of any reader.
      for (let times = 0; times < 10; times += 1) {
        const partlyRead = await (await open('large')).read(1, file.size - 1);
        for await (const chunk of partlyRead) {
          assert.ok(bytes.subarray(1).subarray(0, chunk.length).equals(chunk));
          break;
        }
        assert.ok(partlyRead.destroyed);
      }
      await rm(at('large'));
    });

    test('stalled downloads do not block lists and logs', async (t) => {
      const { writeFiles, workspaces, home, content, paths, log } = await setUp(t);
      await writeFiles({ large: Buffer.alloc(9_000_000), small: 'small' });
      await writeFile(join(home, 'stdout'), 'printed');
      const stalled = await Promise.all(
        ['1', '1', '2', '2'].map(async (user) =>
          (await workspaces.openFile({ jobId, user, signal: notAborted }, ['large'])).read(0, 9_000_000),
        ),
      );
      assert.deepEqual(await paths(), ['large', 'small']);
      assert.equal((await log('stdout'))?.text, 'printed');
      const waiting = content('small');
      for (const stream of stalled) stream.destroy();
      assert.equal(await waiting, 'small');
    });

    test('the version of a file changes with its content, and becomes reliable after a while', async (t) => {
      const { writeFiles, open, at } = await setUp(t);
      await writeFiles({ a: 'one' });
      const versionOf = async () => {
        const file = await open('a');
        await file.close();
        return file.version;
      };
      const first = await versionOf();
      assert.match(first, /^[\w.-]+$/);
      assert.equal(await versionOf(), first);
      await until('the version is reliable', async () => {
        const file = await open('a');
        await file.close();
        return file.isVersionReliable || undefined;
      });
      // A busy machine may take so long to open the file that its version is reliable already.
      await until('the file was opened just after its change', async () => {
        await writeFile(at('a'), 'two');
        const second = await open('a');
        await second.close();
        assert.notEqual(second.version, first);
        return !second.isVersionReliable || undefined;
      });
    });

    test('a stream fails if its file shrinks, and ends at the original size if the file grows', async (t) => {
      const { writeFiles, open, at } = await setUp(t);
      await writeFiles({ a: Buffer.alloc(3_000_000), b: '123' });
      const shrinking = await open('a');
      await truncate(at('a'), 10);
      await assert.rejects(async () => buffer(await shrinking.read(0, shrinking.size)), { code: 'unavailable' });
      const growing = await open('b');
      await appendFile(at('b'), '456');
      assert.equal((await buffer(await growing.read(0, growing.size))).toString(), '123');
    });

    test('readLog reads from any offset', async (t) => {
      const { writeFiles, home, log } = await setUp(t);
      await writeFiles({});
      assert.equal(await log('stdout'), undefined);
      await writeFile(join(home, 'stdout'), 'hello, wörld\n');
      await writeFile(join(home, 'stderr'), '');
      assert.deepEqual(await log('stdout'), { size: 14, text: 'hello, wörld\n' });
      assert.deepEqual(await log('stdout', 7, 3), { size: 14, text: 'wö' });
      for (const offset of [14, 15, 1_000_000]) assert.deepEqual(await log('stdout', offset), { size: 14, text: '' });
      assert.deepEqual(await log('stderr'), { size: 0, text: '' });
    });

    test('archive includes contents, empty folders, times and modes', async (t) => {
      const { writeFiles, at, archive } = await setUp(t);
      await writeFiles({ 'run.sh': 'echo', 'data/in': Buffer.alloc(700_000, 'x') });
      await mkdir(at('empty folder'));
      await chmod(at('run.sh'), 0o755);
      await utimes(at('run.sh'), 1_700_000_000, 1_700_000_000);
      const zip = await buffer(await writeZip(archive()));
      const contents = await readZip(zip);
      assert.deepEqual([...contents.keys()].sort(), ['data/', 'data/in', 'empty folder/', 'run.sh']);
      assert.equal(contents.get('data/in')?.length, 700_000);
      assert.equal(String(contents.get('run.sh')), 'echo');
      const entries = await Array.fromAsync(archive('data'));
      assert.deepEqual(
        entries.map(({ path }) => path),
        ['data/in'],
      );
      const [script] = (await Array.fromAsync(archive())).filter(({ path }) => path === 'run.sh');
      assert.deepEqual([script?.mode, script?.modifiedAt], [0o755, 1_700_000_000_000]);
    });

    test('archive succeeds while files grow, shrink and disappear', async (t) => {
      const { writeFiles, at, archive } = await setUp(t);
      const names = Array.from({ length: 60 }, (_, index) => `f${index}`);
      await writeFiles(Object.fromEntries(names.map((name) => [name, Buffer.alloc(100_000, name)])));
      let isArchiving = true;
      const changes = (async () => {
        for (let round = 0; isArchiving; round = (round + 1) % names.length) {
          const file = at(`f${round}`);
          if (round % 3 === 0) await appendFile(file, Buffer.alloc(50_000)).catch(() => undefined);
          else if (round % 3 === 1) await truncate(file, 10).catch(() => undefined);
          else await rm(file, { force: true });
        }
      })();
      const contents = await readZip(await buffer(await writeZip(archive())));
      isArchiving = false;
      await changes;
      assert.ok(contents.size >= 20 && contents.size <= names.length, `${contents.size} files`);
    });

    test('a file with several hard links in the workspace is readable under each name', async (t) => {
      const { writeFiles, at, paths, content, archive } = await setUp(t);
      await writeFiles({ a: 'shared', 'b/c': '' });
      await link(at('a'), at('b', 'link'));
      assert.deepEqual(await paths(), ['a', 'b/c', 'b/link']);
      assert.deepEqual(await paths('b'), ['b/c', 'b/link']);
      assert.equal(await content('b/link'), 'shared');
      const contents = await readZip(await buffer(await writeZip(archive())));
      assert.deepEqual([String(contents.get('a')), String(contents.get('b/link'))], ['shared', 'shared']);
    });
  });
}

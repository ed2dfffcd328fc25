import assert from 'node:assert/strict';
import { appendFile, chmod, link, mkdir, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { writeZip } from '../../../src/files/zip/zip-writer.ts';
import { until } from '../../support/until.ts';
import { contentsOf } from '../../support/unzip.ts';
import { openWorkspace, type ReaderEnvironment } from './reader-setup.ts';

/** Names that a shell, a list or a header could stumble over. */
const oddNames = [
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

/** What holds for reading any workspace, wherever it is. */
export function readerContract(name: string, start: () => Promise<ReaderEnvironment>) {
  describe(`reading workspaces ${name}`, () => {
    let place: Awaited<ReturnType<typeof start>>;
    before(async () => {
      place = await start();
    });
    after(() => place.close());
    const setUp = (t: TestContext) => openWorkspace(t, place.make);

    test('of a job without a workspace there is nothing', async (t) => {
      const { paths, content, log, archive, workspaces, root } = await setUp(t);
      for (let round = 0; round < 2; round += 1) {
        assert.deepEqual(await paths(), []);
        assert.equal(await content('run.sh'), 'file_unknown');
        assert.equal(await log('stdout'), undefined);
        assert.deepEqual(await Array.fromAsync(archive()), []);
        await mkdir(root, { recursive: true });
      }
      assert.ok(workspaces.logPollMs.fast <= workspaces.logPollMs.slow);
    });

    test('files are listed with path, size and time, in all folders; the logs are not among them', async (t) => {
      const { put, at, home, files } = await setUp(t);
      await put({ a: '12345', 'b/c/d': '1234', 'b/empty': '' });
      await mkdir(at('b', 'nothing in it'));
      await writeFile(join(home, 'stdout'), 'printed');
      await mkdir(join(home, 'files.tmp'));
      await utimes(at('a'), 1_700_000_000.25, 1_700_000_000.25);
      const listed = (await files()).sort((one, other) => (one.path < other.path ? -1 : 1));
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

    test('a folder is listed with paths from the top; one that is not there, or a file, is unknown', async (t) => {
      const { put, paths, archive } = await setUp(t);
      await put({ a: '', 'b/c/d': '', 'b/e': '' });
      assert.deepEqual(await paths('b'), ['b/c/d', 'b/e']);
      assert.deepEqual(await paths('b', 'c'), ['b/c/d']);
      for (const folder of [['x'], ['b', 'x'], ['a'], ['b', 'e']]) {
        await assert.rejects(paths(...folder), { code: 'file_unknown' });
        await assert.rejects(Array.fromAsync(archive(...folder)), { code: 'file_unknown' });
      }
    });

    test('a file is read whole and in parts', async (t) => {
      const { put, content } = await setUp(t);
      await put({ a: '0123456789', 'b/c': 'deep', empty: '' });
      assert.equal(await content('a'), '0123456789');
      assert.equal(await content('a', 3, 4), '3456');
      assert.equal(await content('a', 9, 1), '9');
      assert.equal(await content('b/c'), 'deep');
      assert.equal(await content('empty'), '');
      for (const path of ['A', 'b', 'b/x', 'a/b', 'x/y/z']) assert.equal(await content(path), 'file_unknown');
    });

    test('any name is listed and read as it is, and is in the archive', async (t) => {
      const { put, at, paths, content, archive } = await setUp(t);
      await put(Object.fromEntries(oddNames.map((odd) => [`${odd}/${odd}`, odd])));
      assert.deepEqual(await paths(), oddNames.map((odd) => `${odd}/${odd}`).sort());
      for (const odd of oddNames) assert.equal(await content(`${odd}/${odd}`), odd);
      const zip = await contentsOf(await buffer(await writeZip(archive())));
      assert.deepEqual([...zip.values()].map(String).filter(Boolean).sort(), [...oddNames].sort());
      assert.ok([...zip.keys()].every((path) => !/\\|^[A-Za-z]:/.test(path)));
      await rm(at(), { recursive: true });
    });

    test('a large file comes whole, and its stream can be left at any time', async (t) => {
      const { put, open, at } = await setUp(t);
      const bytes = Buffer.alloc(9_000_001, 'some text that goes on and on; ');
      await put({ large: bytes });
      const file = await open('large');
      assert.ok((await buffer(await file.read(0, file.size))).equals(bytes));
      // More than may be read at a time, where that is limited.
      for (let times = 0; times < 10; times += 1) {
        const left = await (await open('large')).read(1, file.size - 1);
        for await (const chunk of left) {
          assert.ok(bytes.subarray(1).subarray(0, chunk.length).equals(chunk));
          break;
        }
        assert.ok(left.destroyed);
      }
      await rm(at('large'));
    });

    test('clients that take nothing keep nobody from looking at files and logs', async (t) => {
      const { put, open, home, content, paths, log } = await setUp(t);
      await put({ large: Buffer.alloc(9_000_000), small: 'small' });
      await writeFile(join(home, 'stdout'), 'printed');
      const lazy = await Promise.all(Array.from({ length: 4 }, async () => (await open('large')).read(0, 9_000_000)));
      assert.deepEqual(await paths(), ['large', 'small']);
      assert.equal((await log('stdout'))?.text, 'printed');
      const waiting = content('small');
      for (const stream of lazy) stream.destroy();
      assert.equal(await waiting, 'small');
    });

    test('a version stands for the bytes of a file: it stays with them, changes with them, and settles', async (t) => {
      const { put, open, at } = await setUp(t);
      await put({ a: 'one' });
      const versionOf = async () => {
        const file = await open('a');
        await file.close();
        return file.version;
      };
      const first = await versionOf();
      assert.match(first, /^[\w.-]+$/);
      assert.equal(await versionOf(), first);
      await until('the file has settled', async () => {
        const file = await open('a');
        await file.close();
        return file.isVersionReliable || undefined;
      });
      await writeFile(at('a'), 'two');
      const second = await open('a');
      await second.close();
      assert.notEqual(second.version, first);
      assert.equal(second.isVersionReliable, false, 'it has changed just now');
    });

    test('a file that shrinks while it is read fails the stream, and one that grows is cut', async (t) => {
      const { put, open, at } = await setUp(t);
      await put({ a: Buffer.alloc(3_000_000), b: '123' });
      const shrinking = await open('a');
      await truncate(at('a'), 10);
      await assert.rejects(async () => buffer(await shrinking.read(0, shrinking.size)), { code: 'unavailable' });
      const growing = await open('b');
      await appendFile(at('b'), '456');
      assert.equal((await buffer(await growing.read(0, growing.size))).toString(), '123');
    });

    test('what a job has printed is read from any byte on', async (t) => {
      const { put, home, log } = await setUp(t);
      await put({});
      assert.equal(await log('stdout'), undefined);
      await writeFile(join(home, 'stdout'), 'hello, wörld\n');
      await writeFile(join(home, 'stderr'), '');
      assert.deepEqual(await log('stdout'), { size: 14, text: 'hello, wörld\n' });
      assert.deepEqual(await log('stdout', 7, 3), { size: 14, text: 'wö' });
      for (const offset of [14, 15, 1_000_000]) assert.deepEqual(await log('stdout', offset), { size: 14, text: '' });
      assert.deepEqual(await log('stderr'), { size: 0, text: '' });
    });

    test('the archive has everything: contents, empty folders, times and what may be run', async (t) => {
      const { put, at, archive } = await setUp(t);
      await put({ 'run.sh': 'echo', 'data/in': Buffer.alloc(700_000, 'x') });
      await mkdir(at('empty folder'));
      await chmod(at('run.sh'), 0o755);
      await utimes(at('run.sh'), 1_700_000_000, 1_700_000_000);
      const zip = await buffer(await writeZip(archive()));
      const contents = await contentsOf(zip);
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

    test('files that grow, shrink and vanish while they are packed do not break the archive', async (t) => {
      const { put, at, archive } = await setUp(t);
      const names = Array.from({ length: 60 }, (_, index) => `f${index}`);
      await put(Object.fromEntries(names.map((each) => [each, Buffer.alloc(100_000, each)])));
      let isPacking = true;
      const disturbing = (async () => {
        for (let round = 0; isPacking; round = (round + 1) % names.length) {
          const file = at(`f${round}`);
          if (round % 3 === 0) await appendFile(file, Buffer.alloc(50_000)).catch(() => undefined);
          else if (round % 3 === 1) await truncate(file, 10).catch(() => undefined);
          else await rm(file, { force: true });
        }
      })();
      const contents = await contentsOf(await buffer(await writeZip(archive())));
      isPacking = false;
      await disturbing;
      assert.ok(contents.size >= 20 && contents.size <= names.length, `${contents.size} files`);
    });

    test('a file with several names in the workspace is read under each of them', async (t) => {
      const { put, at, paths, content, archive } = await setUp(t);
      await put({ a: 'shared', 'b/c': '' });
      await link(at('a'), at('b', 'again'));
      assert.deepEqual(await paths(), ['a', 'b/again', 'b/c']);
      assert.deepEqual(await paths('b'), ['b/again', 'b/c']);
      assert.equal(await content('b/again'), 'shared');
      const contents = await contentsOf(await buffer(await writeZip(archive())));
      assert.deepEqual([String(contents.get('a')), String(contents.get('b/again'))], ['shared', 'shared']);
    });
  });
}

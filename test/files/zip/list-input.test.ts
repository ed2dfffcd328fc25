import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { findStartFileError } from '../../../src/domain/jobs/command.ts';
import { listFolder, listZip } from '../../../src/files/zip/list-input.ts';
import { createByteReader } from '../../../src/files/zip/zip-directory.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from './hostile-zips.ts';
import { inspectZip } from './inspect-zip.ts';
import { rawZip } from './raw-zip.ts';

const list = (bytes: Buffer, limits = hostileLimits) =>
  listZip(
    createByteReader(bytes.length, async (start, end) => bytes.subarray(start, end)),
    limits,
  );

for (const { name, bytes } of [...hostileZips, ...forgedZips]) {
  test(`a list of a zip ${name} has the problem that the server answers with`, async () => {
    const answer = await inspectZip({ kind: 'memory', bytes }, hostileLimits).then(
      () => null,
      (error: BursarError) => error.message,
    );
    assert.equal((await list(bytes)).problem?.message ?? null, answer);
  });
}

test('a list of a zip marks every refused entry, and shows the others', async () => {
  const zip = rawZip([
    { name: 'run.sh', content: 'hello' },
    { name: '../evil', content: 'evil' },
    { name: 'data/link', content: '/etc/passwd', mode: 0o120777 },
    { name: '/etc/cron', content: '' },
    { name: 'data/a.txt', content: 'four' },
  ]);
  const { entries, unpackedBytes, problem } = await list(zip);
  assert.deepEqual(
    entries.map((entry) => [entry.path, entry.bytes, entry.problem?.replace(/^The zip entry "[^"]*" /, '') ?? null]),
    [
      ['run.sh', 5, null],
      [
        '../evil',
        4,
        'has a path that leaves its folder (..). Create the zip with relative paths, such as data/input.txt.',
      ],
      ['data/link', 11, 'is a symbolic link. Create the zip with the file that the link points to.'],
      ['/etc/cron', 0, 'has an absolute path. Create the zip with relative paths, such as data/input.txt.'],
      ['data/a.txt', 4, null],
    ],
  );
  assert.equal(unpackedBytes, 24);
  assert(problem instanceof BursarError);
  assert.equal(problem.message, entries[1]?.problem);
});

test('a list of a zip stops after a thousand refused entries', async () => {
  const zip = rawZip(Array.from({ length: 1100 }, (_, index) => ({ name: `../${index}`, content: '' })));
  const { entries, problem } = await list(zip, { ...hostileLimits, maxEntries: 2000 });
  assert.equal(entries.length, 1000);
  assert.equal(problem?.message, entries[0]?.problem);
});

test('a list of a valid zip has its folders and sizes, and finds its start file', async () => {
  const zip = await makeZip({ 'job/run.sh': 'hello', 'job/data/a.txt': 'four', 'job/empty/': '' });
  const { entries, problem } = await list(zip);
  assert.equal(problem, null);
  assert.deepEqual(
    entries.map(({ path, kind, bytes }) => [path, kind, bytes]),
    [
      ['job/run.sh', 'file', 5],
      ['job/data/a.txt', 'file', 4],
      ['job/empty', 'folder', 0],
    ],
  );
  const starts = (script: string) => ({
    command: { kind: 'script' as const, script, args: [] },
    tool: null,
    entry: null,
  });
  assert.equal(findStartFileError(starts('run.sh'), entries), null);
  assert.match(findStartFileError(starts('go.sh'), entries)?.message ?? '', /lacks go.sh.*contains job\/run.sh/);
  assert.match(findStartFileError(starts('go.sh'), null)?.message ?? '', /has no zip/);
});

test('a list of a folder marks the refused files', () => {
  const limits = { ...hostileLimits, maxEntries: 3, maxUnpackedBytes: 100 };
  const file = (path: string, bytes = 1) => ({ path, kind: 'file', bytes }) as const;
  const { entries, problem } = listFolder([file('a'), file('a/b'), file('nul'), file('big', 101)], limits);
  assert.match(problem?.message ?? '', /has 4 files and folders, and at most 3/);
  assert.deepEqual(
    entries.map((entry) => entry.problem?.match(/" (\w+ \w+ \w+)/)?.[1]),
    [undefined, 'is in a', 'has a name', 'has more than'],
  );
});

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import type { ZipLimits } from '../../../src/files/zip/zip-entries.ts';
import { countOpenFiles, temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from './hostile-zips.ts';
import { inspectZip } from './inspect-zip.ts';
import { rawZip } from './raw-zip.ts';

async function inspect(t: TestContext, bytes: Buffer, limits: Partial<ZipLimits> = {}) {
  const path = join(await temporaryFolder(t), 'upload.zip');
  await writeFile(path, bytes);
  const allLimits = { ...hostileLimits, ...limits };
  // A zip in memory must give the same result as a zip in a file.
  const [inFile, inMemory] = await Promise.allSettled([
    inspectZip({ kind: 'file', path }, allLimits),
    inspectZip({ kind: 'memory', bytes }, allLimits),
  ]);
  assert.deepEqual(toOutcome(inMemory), toOutcome(inFile));
  if (inFile.status === 'rejected') throw inFile.reason;
  return inFile.value;
}

const toOutcome = (result: PromiseSettledResult<unknown>) =>
  result.status === 'fulfilled' ? result.value : (result.reason as Error).message;

function isInvalidZip(message: RegExp) {
  return (error: unknown) => {
    assert(error instanceof BursarError, `not a BursarError: ${error}`);
    assert.equal(error.code, 'invalid_zip', error.message);
    assert.match(error.message, message);
    assert.doesNotMatch(error.message, /\p{Cc}/u);
    assert.equal(error.transient, false);
    return true;
  };
}

for (const { name, bytes, message } of hostileZips) {
  test(`inspectZip rejects a zip ${name}, and closes its file`, async (t) => {
    const before = await countOpenFiles();
    await assert.rejects(inspect(t, bytes), isInvalidZip(message));
    assert.equal(await countOpenFiles(), before);
  });
}

for (const { name, bytes } of forgedZips) {
  test(`inspectZip accepts a zip ${name}, because it reads only the central directory`, async (t) => {
    assert.equal((await inspect(t, bytes)).entries > 0, true);
  });
}

test('inspectZip counts the entries and bytes of a valid zip, and closes its file', async (t) => {
  const before = await countOpenFiles();
  const zip = await makeZip({ 'run.sh': { content: 'hello', mode: 0o100755 }, 'data/a.txt': 'four', 'empty/': '' });
  assert.deepEqual(await inspect(t, zip), { entries: 3, unpackedBytes: 9 });
  assert.equal(await countOpenFiles(), before);
});

test('inspectZip accepts a zip without entries', async (t) => {
  assert.deepEqual(await inspect(t, await makeZip({})), { entries: 0, unpackedBytes: 0 });
});

test('inspectZip accepts a zip64 file', async (t) => {
  const zip = await makeZip({ 'a.txt': 'hello', 'b.txt': 'world' }, { forceZip64Format: true });
  assert.deepEqual(await inspect(t, zip), { entries: 2, unpackedBytes: 10 });
});

test('inspectZip accepts a zip with a comment', async (t) => {
  const zip = rawZip([{ name: 'a', content: 'x' }]);
  zip.writeUInt16LE(5, zip.length - 2);
  assert.deepEqual(await inspect(t, Buffer.concat([zip, Buffer.from('hello')])), { entries: 1, unpackedBytes: 1 });
});

test('inspectZip accepts names that only resemble hostile ones', async (t) => {
  const names = [
    '..a',
    'a..',
    '...',
    'console',
    'con.txt',
    'COM0',
    'a b',
    'é',
    'cafe\u0301',
    '.hidden',
    'x'.repeat(255),
  ];
  const zip = rawZip(names.map((name) => ({ name, content: name })));
  assert.equal((await inspect(t, zip)).entries, names.length);
});

test('names that differ only in case are different names', async (t) => {
  assert.equal((await inspect(t, rawZip([{ name: 'Makefile' }, { name: 'makefile' }]))).entries, 2);
});

test('a folder entry may follow its files or be missing', async (t) => {
  assert.equal((await inspect(t, rawZip([{ name: 'a/b/c' }, { name: 'a/' }, { name: 'a/b/d' }]))).entries, 3);
});

test('inspectZip accepts as many entries as the limit, and rejects one more', async (t) => {
  const zip = await makeZip({ a: '', b: '', c: '' });
  assert.equal((await inspect(t, zip, { maxEntries: 3 })).entries, 3);
  await assert.rejects(inspect(t, zip, { maxEntries: 2 }), isInvalidZip(/has 3 entries, and at most 2 are allowed/));
});

test('folders that exist only in paths count towards the entry limit', async (t) => {
  const zip = rawZip([{ name: 'a/b/c/d/e' }]);
  assert.equal((await inspect(t, zip, { maxEntries: 4 })).entries, 1);
  await assert.rejects(inspect(t, zip, { maxEntries: 3 }), isInvalidZip(/more than 3 folders/));
});

test('inspectZip accepts as many bytes as the limit, and rejects one more, in one entry or in total', async (t) => {
  const zip = await makeZip({ a: '12345', b: '67890' });
  assert.equal((await inspect(t, zip, { maxUnpackedBytes: 10 })).unpackedBytes, 10);
  await assert.rejects(inspect(t, zip, { maxUnpackedBytes: 9 }), isInvalidZip(/The zip file unpacks to more than 9 B/));
  await assert.rejects(inspect(t, zip, { maxUnpackedBytes: 4 }), isInvalidZip(/"a" unpacks to more than 4 B/));
});

test('inspectZip accepts a small repetitive file of any ratio', async (t) => {
  const zip = await makeZip({ zeros: Buffer.alloc(1_000_000) });
  assert.equal((await inspect(t, zip, { maxRatio: 2 })).unpackedBytes, 1_000_000);
});

test('inspectZip accepts a large file of an ordinary ratio', async (t) => {
  const lines = Array.from({ length: 200_000 }, (_, i) => `${i} ${i * i}`).join('\n');
  assert.equal((await inspect(t, await makeZip({ lines }))).entries, 1);
});

test('the error message truncates a long entry name', async (t) => {
  await assert.rejects(inspect(t, rawZip([{ name: `../${'x'.repeat(900)}` }])), (error: Error) => {
    assert.equal(error.message.length < 300, true);
    return true;
  });
});

test('a missing zip file is an internal error, not an invalid zip', async (t) => {
  const path = join(await temporaryFolder(t), 'gone.zip');
  await assert.rejects(inspectZip({ kind: 'file', path }, hostileLimits), (error: unknown) => {
    assert(error instanceof BursarError);
    assert.equal(error.code, 'internal');
    assert.equal(error.message.includes(path), false);
    return true;
  });
});

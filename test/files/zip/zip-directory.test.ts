import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { inspectZip, type ZipLimits } from '../../../src/files/zip/zip-directory.ts';
import { countOpenFiles, temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from './hostile-zips.ts';
import { rawZip } from './raw-zip.ts';

async function inspect(t: TestContext, bytes: Buffer, limits: Partial<ZipLimits> = {}) {
  const path = join(await temporaryFolder(t), 'upload.zip');
  await writeFile(path, bytes);
  const all = { ...hostileLimits, ...limits };
  // What is in memory must be judged as what is in a file.
  const [inFile, inMemory] = await Promise.allSettled([
    inspectZip({ kind: 'file', path }, all),
    inspectZip({ kind: 'memory', bytes }, all),
  ]);
  assert.deepEqual(outcomeOf(inMemory), outcomeOf(inFile));
  if (inFile.status === 'rejected') throw inFile.reason;
  return inFile.value;
}

const outcomeOf = (result: PromiseSettledResult<unknown>) =>
  result.status === 'fulfilled' ? result.value : (result.reason as Error).message;

function refusal(says: RegExp) {
  return (error: unknown) => {
    assert(error instanceof BursarError, `not a BursarError: ${error}`);
    assert.equal(error.code, 'invalid_zip', error.message);
    assert.match(error.message, says);
    assert.doesNotMatch(error.message, /\p{Cc}/u);
    assert.equal(error.transient, false);
    return true;
  };
}

for (const { name, bytes, says } of hostileZips) {
  test(`a zip ${name} is refused, and its file closed`, async (t) => {
    const before = await countOpenFiles();
    await assert.rejects(inspect(t, bytes), refusal(says));
    assert.equal(await countOpenFiles(), before);
  });
}

for (const { name, bytes } of forgedZips) {
  test(`a zip ${name} passes, since only its directory is read`, async (t) => {
    assert.equal((await inspect(t, bytes)).entries > 0, true);
  });
}

test('an honest zip passes, with its entries and bytes counted and its file closed', async (t) => {
  const before = await countOpenFiles();
  const zip = await makeZip({ 'run.sh': { content: 'hello', mode: 0o100755 }, 'data/a.txt': 'four', 'empty/': '' });
  assert.deepEqual(await inspect(t, zip), { entries: 3, unpackedBytes: 9 });
  assert.equal(await countOpenFiles(), before);
});

test('a zip without entries passes', async (t) => {
  assert.deepEqual(await inspect(t, await makeZip({})), { entries: 0, unpackedBytes: 0 });
});

test('a zip64 file passes', async (t) => {
  const zip = await makeZip({ 'a.txt': 'hello', 'b.txt': 'world' }, { forceZip64Format: true });
  assert.deepEqual(await inspect(t, zip), { entries: 2, unpackedBytes: 10 });
});

test('a zip with a comment passes', async (t) => {
  const zip = rawZip([{ name: 'a', content: 'x' }]);
  zip.writeUInt16LE(5, zip.length - 2);
  assert.deepEqual(await inspect(t, Buffer.concat([zip, Buffer.from('hello')])), { entries: 1, unpackedBytes: 1 });
});

test('names that only look hostile pass', async (t) => {
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

test('names that differ by case only are two names', async (t) => {
  assert.equal((await inspect(t, rawZip([{ name: 'Makefile' }, { name: 'makefile' }]))).entries, 2);
});

test('a folder may come after its files, and a file may come without its folders', async (t) => {
  assert.equal((await inspect(t, rawZip([{ name: 'a/b/c' }, { name: 'a/' }, { name: 'a/b/d' }]))).entries, 3);
});

test('as many entries as the limit pass, and one more is refused', async (t) => {
  const zip = await makeZip({ a: '', b: '', c: '' });
  assert.equal((await inspect(t, zip, { maxEntries: 3 })).entries, 3);
  await assert.rejects(inspect(t, zip, { maxEntries: 2 }), refusal(/has 3 entries, and at most 2 are taken/));
});

test('more folders than the limit of entries are refused, though nothing but names needs them', async (t) => {
  const zip = rawZip([{ name: 'a/b/c/d/e' }]);
  assert.equal((await inspect(t, zip, { maxEntries: 4 })).entries, 1);
  await assert.rejects(inspect(t, zip, { maxEntries: 3 }), refusal(/more than 3 folders/));
});

test('as many bytes as the limit pass, and one more is refused, in one entry or in their sum', async (t) => {
  const zip = await makeZip({ a: '12345', b: '67890' });
  assert.equal((await inspect(t, zip, { maxUnpackedBytes: 10 })).unpackedBytes, 10);
  await assert.rejects(inspect(t, zip, { maxUnpackedBytes: 9 }), refusal(/The zip file unpacks to more than 9 bytes/));
  await assert.rejects(inspect(t, zip, { maxUnpackedBytes: 4 }), refusal(/"a" unpacks to more than 4 bytes/));
});

test('a small repetitive file passes whatever its ratio', async (t) => {
  const zip = await makeZip({ zeros: Buffer.alloc(1_000_000) });
  assert.equal((await inspect(t, zip, { maxRatio: 2 })).unpackedBytes, 1_000_000);
});

test('a large file of an ordinary ratio passes', async (t) => {
  const lines = Array.from({ length: 200_000 }, (_, i) => `${i} ${i * i}`).join('\n');
  assert.equal((await inspect(t, await makeZip({ lines }))).entries, 1);
});

test('a long hostile name is cut short in the refusal', async (t) => {
  await assert.rejects(inspect(t, rawZip([{ name: `../${'x'.repeat(900)}` }])), (error: Error) => {
    assert.equal(error.message.length < 300, true);
    return true;
  });
});

test('a zip that is not there is trouble of Bursar, not of the caller', async (t) => {
  const path = join(await temporaryFolder(t), 'gone.zip');
  await assert.rejects(inspectZip({ kind: 'file', path }, hostileLimits), (error: unknown) => {
    assert(error instanceof BursarError);
    assert.equal(error.code, 'internal');
    assert.equal(error.message.includes(path), false);
    return true;
  });
});

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { BursarError } from '../../../src/domain/errors.ts';
import { removeTree } from '../../../src/files/workspaces/remove-tree.ts';
import { unpackZip } from '../../../src/files/zip/unzip.ts';
import type { ZipSource } from '../../../src/files/zip/zip-content.ts';
import { isLongRun } from '../../support/long-run.ts';
import { countOpenFiles, temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, hostileZips, makeZip } from './hostile-zips.ts';
import { inspectZip } from './inspect-zip.ts';
import { type RawEntry, rawZip } from './raw-zip.ts';

/** Creates a zip and an empty target folder in `parent`. Nothing else may be written to `parent`. */
async function setUp(parent: string, bytes: Buffer) {
  const path = join(parent, 'upload.zip');
  const directory = join(parent, 'files');
  await writeFile(path, bytes);
  await mkdir(directory);
  const assertNothingOutside = async () => assert.deepEqual((await readdir(parent)).sort(), ['files', 'upload.zip']);
  const zip: ZipSource = { kind: 'file', path };
  return { zip, directory, assertNothingOutside };
}

async function unpack(t: TestContext, bytes: Buffer, limits = hostileLimits) {
  const { zip, directory } = await setUp(await temporaryFolder(t), bytes);
  await unpackZip(zip, directory, limits);
  return directory;
}

async function modeOf(path: string) {
  return (await stat(path)).mode & 0o777;
}

const isInvalidZip = (error: unknown) => error instanceof BursarError && error.code === 'invalid_zip';

test('unpackZip unpacks all files and folders of a valid zip', async (t) => {
  const large = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));
  const directory = await unpack(
    t,
    await makeZip({ 'run.sh': 'echo', 'data/deep/large.bin': large, 'data/none': '', 'empty/folder/': '' }),
  );
  assert.equal(await readFile(join(directory, 'run.sh'), 'utf8'), 'echo');
  assert.deepEqual(await readFile(join(directory, 'data/deep/large.bin')), large);
  assert.equal(await readFile(join(directory, 'data/none'), 'utf8'), '');
  assert.deepEqual(await readdir(join(directory, 'empty/folder')), []);
});

test('unpackZip unpacks stored entries, zip64 entries and unusual path spellings', async (t) => {
  const stored = await unpack(t, rawZip([{ name: './a//stored', method: 0, content: 'hello' }, { name: './' }]));
  assert.equal(await readFile(join(stored, 'a/stored'), 'utf8'), 'hello');
  const zip64 = await unpack(t, await makeZip({ 'b/c': 'world' }, { forceZip64Format: true }));
  assert.equal(await readFile(join(zip64, 'b/c'), 'utf8'), 'world');
});

test('names are decoded as UTF-8 with or without the flag, and otherwise as code page 437', async (t) => {
  const zip = rawZip([
    { name: 'flagged-é' },
    { name: Buffer.from('unflagged-é') },
    { name: Buffer.from([0x64, 0x6f, 0x73, 0x2d, 0x82]) },
  ]);
  assert.deepEqual((await readdir(await unpack(t, zip))).sort(), ['dos-é', 'flagged-é', 'unflagged-é']);
});

test('unpackZip keeps the execute bit and ignores all other mode bits', async (t) => {
  const directory = await unpack(
    t,
    rawZip([
      { name: 'folder/', mode: 0o040777 },
      { name: 'plain', mode: 0o100666 },
      { name: 'script', mode: 0o100755 },
      { name: 'group', mode: 0o100010 },
      { name: 'setuid', mode: 0o106755 },
      { name: 'locked', mode: 0o100000 },
    ]),
  );
  assert.equal(await modeOf(join(directory, 'folder')), 0o700);
  assert.equal(await modeOf(join(directory, 'plain')), 0o644);
  assert.equal(await modeOf(join(directory, 'script')), 0o755);
  assert.equal(await modeOf(join(directory, 'group')), 0o755);
  assert.equal((await stat(join(directory, 'setuid'))).mode & 0o7777, 0o755);
  assert.equal(await modeOf(join(directory, 'locked')), 0o644);
});

for (const { name, bytes, message } of [...hostileZips, ...forgedZips]) {
  test(`unpackZip rejects a zip ${name}, writes nothing outside the folder, and closes all files`, async (t) => {
    const { zip, directory, assertNothingOutside } = await setUp(await temporaryFolder(t), bytes);
    const before = await countOpenFiles();
    await assert.rejects(unpackZip(zip, directory, hostileLimits), { code: 'invalid_zip', message });
    assert.equal(await countOpenFiles(), before);
    await assertNothingOutside();
  });
}

test('unpackZip writes nothing if the central directory is invalid', async (t) => {
  const bytes = rawZip([{ name: 'good', content: 'x' }, { name: '../evil' }]);
  const { zip, directory } = await setUp(await temporaryFolder(t), bytes);
  await assert.rejects(unpackZip(zip, directory, hostileLimits), { code: 'invalid_zip' });
  assert.deepEqual(await readdir(directory), []);
});

test('unpackZip stops an entry that exceeds its declared size before the bytes are written', async (t) => {
  const bytes = rawZip([{ name: 'bomb', content: Buffer.alloc(50_000_000), unpackedBytes: 100_000 }]);
  const { zip, directory } = await setUp(await temporaryFolder(t), bytes);
  await assert.rejects(unpackZip(zip, directory, hostileLimits), { code: 'invalid_zip' });
  assert.equal((await stat(join(directory, 'bomb'))).size <= 100_000, true);
});

test('unpackZip neither overwrites an existing file nor writes through a link', async (t) => {
  const parent = await temporaryFolder(t);
  const { zip, directory } = await setUp(parent, await makeZip({ result: 'evil' }));
  await writeFile(join(parent, 'precious'), 'precious');
  await symlink(join(parent, 'precious'), join(directory, 'result'));
  await assert.rejects(unpackZip(zip, directory, hostileLimits), { code: 'invalid_zip', message: /EEXIST/ });
  assert.equal(await readFile(join(parent, 'precious'), 'utf8'), 'precious');
});

/** Inspects and unpacks. Any bytes must lead to success or `invalid_zip`, with nothing written outside the folder. */
async function assertHarmless(bytes: Buffer) {
  const parent = await mkdtemp(join(tmpdir(), 'bursar-files-'));
  try {
    const { zip, directory, assertNothingOutside } = await setUp(parent, bytes);
    let isAccepted = true;
    try {
      await inspectZip(zip, hostileLimits);
    } catch (error) {
      assert(isInvalidZip(error), `inspect: ${error}`);
      isAccepted = false;
    }
    try {
      await unpackZip(zip, directory, hostileLimits);
      assert.equal(isAccepted, true, 'unpackZip accepted a zip that inspectZip rejected');
    } catch (error) {
      assert(isInvalidZip(error), `unpack: ${error}`);
    }
    await assertNothingOutside();
  } finally {
    await removeTree(parent);
  }
}

const files = { 'run.sh': { content: 'echo hello', mode: 0o100755 }, 'data/in.txt': 'x'.repeat(3000), 'empty/': '' };
const makeValidZips = async () => [await makeZip(files), await makeZip(files, { forceZip64Format: true })];

/** Bytes to overwrite. Positions count from the end, where the central directory is. */
const overwrite = fc.record({
  position: fc.oneof(fc.nat({ max: 400 }), fc.nat({ max: 4000 })),
  bytes: fc.oneof(
    fc.constantFrom('ff', 'ffff', 'ffffffff', 'ffffffffffffffff', '00000000', '504b0506', '504b0102').map(fromHex),
    fc.uint8Array({ minLength: 1, maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
  ),
});

function fromHex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

test('a zip that is truncated anywhere, or has a gap, is rejected or harmless', { timeout: 120_000 }, async () => {
  const cut = fc.record({
    zip: fc.constantFrom(...(await makeValidZips())),
    from: fc.nat({ max: 4000 }),
    length: fc.nat({ max: 4000 }),
  });
  const property = fc.asyncProperty(cut, async ({ zip, from, length }) => {
    await assertHarmless(zip.subarray(0, from));
    await assertHarmless(Buffer.concat([zip.subarray(0, from), zip.subarray(from + length)]));
  });
  await fc.assert(property, { numRuns: isLongRun ? 150 : 50 });
});

test('a zip with any bits flipped is rejected or harmless', { timeout: 120_000 }, async () => {
  const flips = fc.array(fc.record({ position: fc.nat(), bit: fc.nat({ max: 7 }) }), { minLength: 1, maxLength: 8 });
  const property = fc.asyncProperty(fc.constantFrom(...(await makeValidZips())), flips, async (zip, all) => {
    const bytes = Buffer.from(zip);
    for (const { position, bit } of all) {
      const index = position % bytes.length;
      bytes.writeUInt8(bytes.readUInt8(index) ^ (1 << bit), index);
    }
    await assertHarmless(bytes);
  });
  await fc.assert(property, { numRuns: isLongRun ? 300 : 100 });
});

test('a zip with any bytes overwritten is rejected or harmless', { timeout: 120_000 }, async () => {
  const overwrites = fc.array(overwrite, { minLength: 1, maxLength: 3 });
  const property = fc.asyncProperty(fc.constantFrom(...(await makeValidZips())), overwrites, async (zip, all) => {
    const bytes = Buffer.from(zip);
    for (const { position, bytes: replacement } of all) replacement.copy(bytes, Math.max(0, bytes.length - position));
    await assertHarmless(bytes);
  });
  await fc.assert(property, { numRuns: isLongRun ? 300 : 100 });
});

test('a zip with any names is rejected or unpacked inside its folder', { timeout: 120_000 }, async () => {
  const segment = fc.oneof(
    fc.constantFrom('..', '.', '', 'a', 'b', 'nul', 'c:', '\\', '\0'),
    fc.string({ unit: 'binary' }),
  );
  const name = fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/'));
  const entry: fc.Arbitrary<RawEntry> = fc.record({
    name: fc.oneof(
      name,
      fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
    ),
    content: fc.string(),
    mode: fc.constantFrom(0, 0o100644, 0o100755, 0o040755),
  });
  const property = fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 4 }), (entries) =>
    assertHarmless(rawZip(entries)),
  );
  await fc.assert(property, { numRuns: isLongRun ? 300 : 100 });
});

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type InputRequest, readLayout } from '../../../src/domain/jobs/command.ts';
import { createInputCheck } from '../../../src/files/zip/check-input.ts';
import { readStart, withZip, type ZipSource } from '../../../src/files/zip/zip-content.ts';
import { temporaryFolder } from '../temporary.ts';
import { forgedZips, hostileLimits, makeZip } from './hostile-zips.ts';
import { rawZip } from './raw-zip.ts';

const limits = { ...hostileLimits, maxUnpackedBytes: 10_000_000, maxRatio: 1000 };

async function inspect(names: readonly string[], startFile: string | null = null) {
  const bytes = await makeZip(Object.fromEntries(names.map((name) => [name, name.endsWith('/') ? '' : 'x'])));
  return await withZip({ kind: 'memory', bytes }, limits, async ({ entries }) => readLayout(entries, startFile));
}

/** Checks the zip of a job that needs no file. */
async function check(source: ZipSource, maxVerifiedBytes: number) {
  const request: InputRequest = { command: { kind: 'argv', argv: ['true'] }, tool: null, entry: null };
  return await createInputCheck({ zipLimits: limits, maxVerifiedBytes })(request, source, null);
}

for (const [names, topFolder] of [
  [['project/run.sh'], 'project'],
  [['project/', 'project/run.sh', 'project/data/in.txt'], 'project'],
  [['project/run.sh', 'project/.DS_Store', '.DS_Store', '__MACOSX/', '__MACOSX/project/._run.sh'], 'project'],
  [['project/'], 'project'],
  [['run.sh'], null],
  [['project/run.sh', 'readme.txt'], null],
  [['readme.txt', 'project/run.sh'], null],
  [['one/run.sh', 'two/run.sh'], null],
  [['project/run.sh', 'other/'], null],
  [['__MACOSX/._run.sh'], null],
  [[], null],
] as const) {
  test(`the top folder of a zip with ${JSON.stringify(names)} is ${topFolder}`, async () => {
    assert.equal((await inspect(names)).topFolder, topFolder);
  });
}

for (const [names, startFile, folder] of [
  [['run.sh', 'data/in.txt'], 'run.sh', ''],
  [['project/run.sh'], 'run.sh', 'project'],
  [['project/run.sh'], 'project/run.sh', ''],
  [['project/bin/run.sh', 'project/data'], 'bin/run.sh', 'project'],
  [['project/project/run.sh', 'project/run.sh'], 'project/run.sh', ''],
  [['project/bin/run.sh'], 'run.sh', null],
  [['one/run.sh', 'two/run.sh'], 'run.sh', null],
  [['one/run.sh', 'readme.txt'], 'run.sh', null],
  [['run.sh/', 'other'], 'run.sh', null],
  [['Run.sh'], 'run.sh', null],
  [['my-run.sh', 'project/my-run.sh'], 'run.sh', null],
] as const) {
  test(`${startFile} of ${JSON.stringify(names)} is in ${JSON.stringify(folder)}`, async () => {
    assert.equal((await inspect(names, startFile)).start?.folder ?? null, folder);
  });
}

test('some files are named, and all are counted', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `file${index}`);
  const { fileNames, fileCount } = await inspect(['folder/', ...names, '.DS_Store'], 'run.sh');
  assert.deepEqual([fileNames, fileCount], [names.slice(0, 5), 12]);
});

test('the start of the start file is read, whatever its length, deflated or stored', async (t) => {
  for (const length of [0, 1, 65_535, 65_536, 65_537, 300_000]) {
    const text = Buffer.from(Array.from({ length }, (_, i) => (i * i) % 251));
    const packed = await makeZip({ before: 'x', 'run.sh': text });
    const stored = rawZip([{ name: 'run.sh', method: 0, content: text }]);
    for (const zip of [packed, stored]) {
      for (const source of await toSources(t, zip)) {
        for (const maxStartBytes of [1, 65_536]) {
          await withZip(source, limits, async (zip) => {
            const script = zip.entries.find(({ path }) => path === 'run.sh');
            assert.ok(script);
            for (const isVerified of [false, true]) {
              const start = await readStart(zip, script, maxStartBytes, isVerified);
              assert.deepEqual(start, text.subarray(0, maxStartBytes), `${maxStartBytes} of ${length}`);
            }
            assert.ok(zip.unpackedBytes >= length);
          });
        }
      }
    }
  }
});

const toSources = async (t: TestContext, bytes: Buffer) => {
  const path = join(await temporaryFolder(t), 'job.zip');
  await writeFile(path, bytes);
  return [{ kind: 'memory', bytes } as const, { kind: 'file', path } as const];
};

for (const { name, bytes, message } of forgedZips) {
  test(`a zip ${name} is rejected, unless it is too large to be verified`, async (t) => {
    for (const source of await toSources(t, bytes)) {
      await assert.rejects(check(source, 1_000_000), { code: 'invalid_zip', message });
      await check(source, -1);
    }
  });
}

test('a changed bit in the contents of a large file is detected, deflated or stored', async (t) => {
  const content = randomBytes(200_000);
  for (const zip of [await makeZip({ data: content }), rawZip([{ name: 'data', method: 0, content }])]) {
    for (const source of await toSources(t, zip)) await check(source, 200_000);
    zip.writeUInt8(zip.readUInt8(100_000) ^ 4, 100_000);
    for (const source of await toSources(t, zip)) await assert.rejects(check(source, 200_000), { code: 'invalid_zip' });
  }
});

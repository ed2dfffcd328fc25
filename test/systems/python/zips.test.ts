import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { openFolder } from '#client';
import { type ArchiveEntry, writeZip } from '../../../src/files/zip/zip-writer.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { createEntry, toAsync } from '../../files/zip/archive-entries.ts';
import { runPython } from '../../support/python.ts';

/** Verifies all checksums of a zip, and prints name, size, mode and year of each entry, and whether it is compressed. */
const script = `
import io, sys, zipfile
z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert z.testzip() is None
for i in z.infolist(): print(i.filename, i.file_size, oct(i.external_attr >> 16), i.date_time[0], i.compress_size < i.file_size, sep='|')`;
const readEntries = (zip: Buffer) => runPython(script, { input: zip }).trim().split('\n').sort();

test('archives of files of a job have names, sizes, modes and checksums that Python can read', async () => {
  const folder: ArchiveEntry = { kind: 'folder', path: 'empty', modifiedAt: 0, mode: 0o755 };
  const farFuture = { modifiedAt: 99_999_999_999_999, mode: 0o755 };
  const zip = await writeZip(
    toAsync([folder, createEntry('grüße', [Buffer.from('hello')], 5), createEntry('x', [], 0, farFuture)]),
  );
  assert.deepEqual(readEntries(await buffer(zip)), [
    'empty/|0|0o40755|1980|False',
    'grüße|5|0o100640|2026|False',
    'x|0|0o100755|2038|False',
  ]);
});

test('folders that the TypeScript client packs are zips that Python can read', async (context) => {
  const folder = await temporaryFolder(context);
  await mkdir(join(folder, 'deep/empty'), { recursive: true, mode: 0o755 });
  await writeFile(join(folder, 'run.sh'), 'true');
  await chmod(join(folder, 'run.sh'), 0o755);
  await writeFile(join(folder, 'text.txt'), 'x'.repeat(50_000));
  await chmod(join(folder, 'text.txt'), 0o644);
  const source = await openFolder(folder);
  const zip = await buffer(source.open(() => undefined) as ReadableStream<Uint8Array>);
  const entries = readEntries(zip).map((line) => line.replace(/\|[0-9]{4}\|/, '|'));
  assert.ok(entries.includes('run.sh|4|0o100755|False'), entries.join('\n'));
  assert.ok(entries.includes('text.txt|50000|0o100644|True'));
  assert.ok(entries.includes('deep/empty/|0|0o40755|False'));
});

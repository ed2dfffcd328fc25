import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createSpool, type Upload } from '../../../src/files/spool/spool.ts';
import { runUnprivileged } from '../temporary.ts';
import { isDiskErrorWithoutPath, jobId, modeOf, openSpool, receiveFile } from './spool-fixture.ts';

test('open creates the folders with access only for the owner', async (t) => {
  const { directory } = await openSpool(t);
  assert.equal(await modeOf(directory), 0o700);
  assert.equal(await modeOf(join(directory, 'incoming')), 0o700);
});

test('removeStaleUploads deletes unfinished uploads of an earlier process, and keeps the zips of jobs', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  await writeFile(join(directory, 'incoming', 'old.part'), 'half');
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await createSpool(directory).open();
  await spool.removeStaleUploads(0);
  assert.deepEqual(await incoming(), []);
  assert.deepEqual(await spool.list(), [jobId]);
});

test('removeStaleUploads deletes only uploads that have not grown for the given time', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  for (const name of ['old.part', 'new.part']) await writeFile(join(directory, 'incoming', name), 'half');
  const longAgo = new Date(Date.now() - 7_200_000);
  await utimes(join(directory, 'incoming', 'old.part'), longAgo, longAgo);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await spool.removeStaleUploads(3_600_000);
  assert.deepEqual(await incoming(), ['new.part']);
  assert.deepEqual(await spool.list(3_600_000), []);
  assert.deepEqual(await spool.list(), [jobId]);
});

test('storeForJob reports disk errors, and can be repeated', async (t) => {
  const { spool, directory } = await openSpool(t);
  const file = await receiveFile(spool, 'x');
  await chmod(directory, 0o500);
  await runUnprivileged(
    async () => await assert.rejects(spool.storeForJob(file, jobId), isDiskErrorWithoutPath(directory)),
  );
  await chmod(directory, 0o700);
  assert.deepEqual(await spool.list(), []);
  await spool.storeForJob(file, jobId);
  assert.deepEqual(await spool.list(), [jobId]);
});

test('storeForJob moves the file of an upload to the job', async (t) => {
  const { spool, directory, incoming } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  assert.equal(spool.pathOf(jobId), join(directory, `${jobId}.zip`));
  assert.equal((await readFile(spool.pathOf(jobId), 'utf8')).trimEnd(), 'zip');
  assert.deepEqual(await incoming(), []);
});

test('discard deletes an upload, and does nothing if repeated', async (t) => {
  const { spool, incoming } = await openSpool(t);
  const upload: Pick<Upload, 'content'> = { content: { kind: 'file', path: await receiveFile(spool, 'zip') } };
  await spool.discard(upload);
  assert.deepEqual(await incoming(), []);
  await spool.discard(upload);
});

test('discard leaves a file that cannot be deleted, and does not throw', async (t) => {
  const { spool, directory } = await openSpool(t);
  // Deleting a folder this way fails.
  await spool.discard({ content: { kind: 'file', path: join(directory, 'incoming') } });
  assert.ok((await readdir(directory)).includes('incoming'));
});

test('discard does not delete the zip of a job', async (t) => {
  const { spool } = await openSpool(t);
  const path = await receiveFile(spool, 'zip');
  await spool.storeForJob(path, jobId);
  await spool.discard({ content: { kind: 'file', path } });
  assert.deepEqual(await spool.list(), [jobId]);
});

test('remove deletes the zip of a job, and does nothing if repeated', async (t) => {
  const { spool } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  await spool.remove(jobId);
  assert.deepEqual(await spool.list(), []);
  await spool.remove(jobId);
});

test('has throws if the folder cannot be read, instead of returning false', async (t) => {
  const { spool, directory } = await openSpool(t);
  assert.equal(await spool.has(jobId), false);
  await spool.storeForJob(await receiveFile(spool, 'zip'), jobId);
  assert.equal(await spool.has(jobId), true);
  // The folder of this spool would be inside a file.
  const unreadable = createSpool(join(spool.pathOf(jobId), 'spool'));
  await assert.rejects(unreadable.has(jobId), isDiskErrorWithoutPath(directory));
});

test('list returns only jobs with a zip, and ignores other files', async (t) => {
  const { spool, directory } = await openSpool(t);
  await spool.storeForJob(await receiveFile(spool, '1'), 'B-2');
  await spool.storeForJob(await receiveFile(spool, '2'), 'A-1');
  await writeFile(join(directory, 'notes.zip'), 'of the operator');
  await writeFile(join(directory, 'C-3'), 'no zip');
  await mkdir(join(directory, 'lost+found'));
  assert.deepEqual((await spool.list()).sort(), ['A-1', 'B-2']);
});

test('invalid job ids are rejected', async (t) => {
  const { spool } = await openSpool(t);
  const file = await receiveFile(spool, 'zip');
  for (const wrong of ['', '..', '../A', 'A/B', 'a', 'A.zip', 'A\n', 'A\0']) {
    assert.throws(() => spool.pathOf(wrong), { code: 'internal' });
    await assert.rejects(spool.storeForJob(file, wrong), { code: 'internal' });
    await assert.rejects(spool.remove(wrong), { code: 'internal' });
  }
});

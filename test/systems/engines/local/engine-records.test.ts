import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, rmdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { isCancellationRequested, requestCancellation } from '../../../../src/engines/local/records.ts';
import { createSupervisorClient } from '../../../../src/engines/local/supervisor/client.ts';
import { localTest } from '../../../engines/local/harness.ts';
import {
  eventually,
  neverAborted,
  observeAll,
  observeJob,
  waitUntilFinished,
  waitUntilRunning,
} from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased } from '../../../engines/test-jobs.ts';
import { queueBehind, queueMany } from './queued-jobs.ts';

// The engine reads the records that an earlier process left. engine-crash.test.ts kills such processes.

localTest('a poll reads only some of the jobs that wait, and polls in a row read all', { cores: 1 }, async (h) => {
  const { last } = await queueMany(h);
  const engine = await h.reopen();
  await rm(h.recordOf(last), { recursive: true });
  assert.equal((await observeJob(engine, last.jobId))?.kind, 'queued');
  await eventually('all jobs have been read', async () => (await observeJob(engine, last.jobId)) === undefined);
});

localTest('a recorded cancellation ends the job even if the signal is lost', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, job.jobId);
  await requestCancellation(h.recordOf(job));
  assert.ok(await isCancellationRequested(h.recordOf(job)));
  assert.equal((await waitUntilFinished(h.engine, job.jobId)).reason, 'cancelled by its owner');
});

localTest('a job whose supervisor cannot be started stays queued and is retried', { cores: 1 }, async (h) => {
  const { holder, queued } = await queueBehind(h, runOnce);
  const obstacle = join(h.recordOf(queued), 'offered');
  await mkdir(obstacle);
  await letFinish(holder);
  await waitUntilFinished(h.engine, holder.jobId);
  await eventually('the error is reported', async () => h.errors.some((error) => error.includes('EISDIR')));
  assert.equal((await observeJob(h.engine, queued.jobId))?.kind, 'queued');
  await rmdir(obstacle);
  assert.equal((await waitUntilFinished(h.engine, queued.jobId)).outcome, 'succeeded');
});

localTest(
  'a supervisor that cannot be started is reported, and its job stays queued',
  { supervisor: createSupervisorClient({ logFile: tmpdir() }) },
  async (h) => {
    const job = await h.newJob(runOnce);
    await h.engine.submit(job, neverAborted);
    await eventually('the error is reported', async () => h.errors.some((error) => error.includes('EISDIR')));
    assert.equal((await observeJob(h.engine, job.jobId))?.kind, 'queued');
  },
);

localTest('jobs with damaged records are reported as lost, and the engine continues', { cores: 1 }, async (h) => {
  const jobs = await Promise.all(Array.from({ length: 3 }, () => h.newJob(runOnce)));
  const [noRequest, noStart, noEnd] = jobs as [EngineJob, EngineJob, EngineJob];
  for (const job of [noStart, noEnd]) await h.engine.submit(job, neverAborted);
  for (const job of [noStart, noEnd]) await waitUntilFinished(h.engine, job.jobId);
  const { holder } = await queueBehind(h, runOnce);
  await h.engine.submit(noRequest, neverAborted);
  await h.engine.close();
  await writeFile(join(h.recordOf(noRequest), 'request.json'), '{"sequence":');
  await rm(join(h.recordOf(noStart), 'exit.json'));
  await writeFile(join(h.recordOf(noStart), 'start.json'), '[]');
  await writeFile(join(h.recordOf(noEnd), 'exit.json'), '');
  const reopened = await h.reopen();
  const ends = await Promise.all(jobs.map((job) => waitUntilFinished(reopened, job.jobId)));
  assert.deepEqual(
    ends.map(({ outcome, reason }) => [outcome, reason]),
    [
      ['lost', 'its request record is damaged'],
      ['lost', 'its start record is damaged'],
      ['lost', 'its exit record is damaged'],
    ],
  );
  assert.equal(await countRuns(noRequest), 0);
  const reopenedAgain = await h.reopen();
  assert.deepEqual(await Promise.all(jobs.map((job) => waitUntilFinished(reopenedAgain, job.jobId))), ends);
  await letFinish(holder);
});

localTest('incomplete files of a crash are removed, and no other files', {}, async (h) => {
  const job = await h.newJob();
  await h.engine.submit(job, neverAborted);
  await waitUntilFinished(h.engine, job.jobId);
  const { directory } = h.options;
  const uuid = '00000000-0000-4000-8000-000000000000';
  const temporary = (pid: number) => join(h.recordOf(job), `exit.json.${pid}-${uuid}.tmp`);
  for (const folder of [`.new-x-${uuid}`, `.gone-y-${uuid}`, 'empty', 'foreign']) await mkdir(join(directory, folder));
  await writeFile(join(directory, `.new-x-${uuid}`, 'request.json'), '{');
  await writeFile(join(directory, 'foreign', 'thesis.tex'), '');
  await writeFile(temporary(2 ** 22 + 1), '{');
  await writeFile(temporary(process.pid), '{');
  const reopened = await h.reopen();
  assert.deepEqual((await readdir(directory)).filter((name) => name !== '.health').sort(), [job.jobId, 'foreign']);
  assert.deepEqual([existsSync(temporary(2 ** 22 + 1)), existsSync(temporary(process.pid))], [false, true]);
  assert.deepEqual(
    (await observeAll(reopened)).map(({ jobId }) => jobId),
    [job.jobId],
  );
});

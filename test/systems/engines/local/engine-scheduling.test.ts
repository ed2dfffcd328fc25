import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { createJobList } from '../../../../src/engines/local/job-list.ts';
import { identifyProcess } from '../../../../src/engines/local/processes.ts';
import { claimJob, monotonicNowMs, publishRequest } from '../../../../src/engines/local/records.ts';
import { createScheduler } from '../../../../src/engines/local/scheduler.ts';
import type { SupervisedJob } from '../../../../src/engines/local/supervisor/client.ts';
import { localTest } from '../../../engines/local/harness.ts';
import {
  eventually,
  neverAborted,
  observeJob,
  waitUntilFinished,
  waitUntilRunning,
} from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';

/** Writes its start and its end to a log file that all jobs share. */
const logged = (name: string, cores: number) =>
  shellLine(`echo "+ ${name} ${cores}" >> ../../../log; sleep 0.1; echo "- ${name} ${cores}" >> ../../../log`);

async function readLog(root: string): Promise<{ sign: string; name: string; cores: number }[]> {
  const rows = (await readFile(join(root, 'log'), 'utf8')).trim().split('\n');
  return rows.map((row) => {
    const [sign = '', name = '', cores] = row.split(' ');
    return { sign, name, cores: Number(cores) };
  });
}

localTest('never uses more cores than exist, and runs a job that requests more alone', { cores: 3 }, async (h) => {
  const sizes = [1, 2, 1, 3, 2, 99, 1];
  const jobs = [];
  for (const [index, coresPerNode] of sizes.entries()) {
    const job = await h.newJob({ coresPerNode, ...logged(`job${index}`, Math.min(coresPerNode, 3)) });
    await h.engine.submit(job, neverAborted);
    jobs.push(job);
  }
  for (const job of jobs) assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
  let inUse = 0;
  for (const { sign, cores } of await readLog(h.root)) {
    inUse += sign === '+' ? cores : -cores;
    assert.ok(inUse <= 3);
  }
  assert.equal(inUse, 0);
});

localTest('starts jobs in the order of submission, also across a restart', { cores: 1 }, async (h) => {
  const first = await h.newJob(runUntilReleased);
  await h.engine.submit(first, neverAborted);
  await waitUntilRunning(h.engine, first.jobId);
  const names = ['c', 'a', 'd', 'b', 'e'];
  const jobs = await Promise.all(names.map((name) => h.newJob({ jobId: name, ...logged(name, 1) })));
  for (const job of jobs.slice(0, 3)) await h.engine.submit(job, neverAborted);
  const reopened = await h.reopen();
  for (const job of jobs.slice(3)) await reopened.submit(job, neverAborted);
  await letFinish(first);
  for (const job of jobs) await waitUntilFinished(reopened, job.jobId);
  const starts = (await readLog(h.root)).filter(({ sign }) => sign === '+').map(({ name }) => name);
  assert.deepEqual(starts, names);
});

localTest('lets owners take turns, in the order of submission of each', { cores: 1 }, async (h) => {
  const first = await h.newJob({ ...runUntilReleased, owner: '1' });
  await h.engine.submit(first, neverAborted);
  await waitUntilRunning(h.engine, first.jobId);
  const names = ['1a', '1b', '1c', '2a', '2b', '3a'];
  const jobs = await Promise.all(
    names.map((name) => h.newJob({ jobId: `job-${name}`, owner: name.charAt(0), ...logged(name, 1) })),
  );
  for (const job of jobs) await h.engine.submit(job, neverAborted);
  await letFinish(first);
  for (const job of jobs) await waitUntilFinished(h.engine, job.jobId);
  const starts = (await readLog(h.root)).filter(({ sign }) => sign === '+').map(({ name }) => name);
  assert.deepEqual(starts, ['2a', '3a', '1a', '2b', '1b', '1c']);
});

localTest('runs jobs that fit at the same time', { cores: 2 }, async (h) => {
  // Each of the two ends only when the other one has started.
  const pair = await Promise.all(
    ['left', 'right'].map((name, index) => {
      const other = ['right', 'left'][index];
      return h.newJob(shellLine(`touch ../../../${name}; until [ -e ../../../${other} ]; do sleep 0.02; done`));
    }),
  );
  for (const job of pair) await h.engine.submit(job, neverAborted);
  for (const job of pair) assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
});

localTest('starts the next job when one ends, without a poll', { cores: 1 }, async (h) => {
  const jobs = await Promise.all([1, 2, 3].map(() => h.newJob(runOnce)));
  for (const job of jobs) await h.engine.submit(job, neverAborted);
  await eventually('all jobs have run', async () =>
    (await Promise.all(jobs.map(countRuns))).every((runs) => runs === 1),
  );
});

localTest('a missing folder is a transient error', {}, async (h) => {
  await rm(h.options.directory, { recursive: true });
  const refused = { name: 'BursarError', code: 'unavailable', transient: true };
  await assert.rejects(h.engine.submit(await h.newJob(), neverAborted), refused);
});

localTest('a poll soon after another one does not read jobs whose supervisors report', { cores: 1 }, async (h) => {
  const { directory, memoryMb, outputKb, killGraceSeconds } = h.options;
  const limits = { memoryMb, outputKb, killGraceSeconds };
  const options = { totalCores: 1, onError: assert.fail };
  const list = createJobList({ ...options, directory, limits, supervisorGraceSeconds: 15, now: Date.now });
  const refreshed: string[] = [];
  const scheduler = createScheduler({
    ...options,
    list: {
      ...list,
      refresh: (job) => {
        refreshed.push(job.jobId);
        return list.refresh(job);
      },
    },
    settings: { limits },
    supervisor: { run: () => undefined }, // takes long to claim its job
    onChange: () => undefined,
  });
  const jobs = [await h.newJob({ jobId: 'started' }), await h.newJob({ jobId: 'claimed-by-another' })];
  for (const [sequence, job] of jobs.entries()) await publishRequest(h.recordOf(job), { sequence, job });
  await scheduler.withExclusiveList(list.loadAll);
  const other = list.get('claimed-by-another');
  assert.ok(other);
  list.watch(other);
  const poll = async () => {
    refreshed.length = 0;
    await scheduler.poll();
    return [...refreshed].sort();
  };
  let nowMs = 0;
  const clock = mock.method(performance, 'now', () => nowMs);
  try {
    assert.deepEqual(await poll(), ['claimed-by-another', 'started']);
    assert.deepEqual(await poll(), ['claimed-by-another']);
    nowMs = 1000;
    assert.deepEqual(await poll(), ['claimed-by-another', 'started']);
  } finally {
    clock.mock.restore();
  }
  await scheduler.stop();
});

localTest('a job frees its cores when its last process has ended, not before', { cores: 1 }, async (h) => {
  const { directory, memoryMb, outputKb, killGraceSeconds } = h.options;
  const limits = { memoryMb, outputKb, killGraceSeconds };
  const options = { totalCores: 1, onError: assert.fail };
  const list = createJobList({ ...options, directory, limits, supervisorGraceSeconds: 15, now: Date.now });
  const started: SupervisedJob[] = [];
  const supervisor = { run: (job: SupervisedJob) => void started.push(job) };
  const scheduler = createScheduler({ ...options, list, settings: { limits }, supervisor, onChange: () => undefined });
  const [first, second] = [await h.newJob({ jobId: 'first' }), await h.newJob({ jobId: 'second' })];
  for (const [sequence, job] of [first, second].entries()) await publishRequest(h.recordOf(job), { sequence, job });
  await scheduler.withExclusiveList(list.loadAll);
  const folders = () => started.map(({ folder }) => folder);
  const claim = { kind: 'supervised', supervisor: await identifyProcess(process.pid) } as const;
  await claimJob(h.recordOf(first), { ...claim, startedAt: Date.now(), startedAtMonotonicMs: monotonicNowMs() });
  await scheduler.poll();
  assert.deepEqual(folders(), [h.recordOf(first)]);
  started[0]?.onExit();
  assert.deepEqual(folders(), [h.recordOf(first), h.recordOf(second)]);
  await scheduler.stop();
});

localTest('a job whose record was removed is unknown, and does not block other jobs', { cores: 1 }, async (h) => {
  const [running, removed, next] = [await h.newJob(runUntilReleased), await h.newJob(runOnce), await h.newJob(runOnce)];
  for (const job of [running, removed, next]) await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, running.jobId);
  await rm(h.recordOf(removed), { recursive: true });
  await eventually('the job is unknown', async () => (await observeJob(h.engine, removed.jobId)) === undefined);
  await letFinish(running);
  assert.equal((await waitUntilFinished(h.engine, next.jobId)).outcome, 'succeeded');
  assert.equal(await countRuns(removed), 0);
});

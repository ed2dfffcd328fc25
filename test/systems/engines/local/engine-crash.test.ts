import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Engine, EngineJob } from '../../../../src/engines/engine.ts';
import { buildLostEnd } from '../../../../src/engines/local/job-end.ts';
import { processExists } from '../../../../src/engines/local/processes.ts';
import { recordEnd, recordOffer, requestCancellation } from '../../../../src/engines/local/records.ts';
import { createSupervisorClient } from '../../../../src/engines/local/supervisor/client.ts';
import { assertNoProcessLeft, type LocalHarness, localTest, supervisorLog } from '../../../engines/local/harness.ts';
import {
  eventually,
  neverAborted,
  observeAll,
  observeJob,
  waitUntilFinished,
  waitUntilRunning,
} from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import { isLongRun } from '../../../support/long-run.ts';
import { listProcesses } from '../../../support/process-list.ts';
import { queueBehind, queueMany } from './queued-jobs.ts';

async function countStates(engine: Engine): Promise<Partial<Record<string, number>>> {
  const kinds = (await observeAll(engine)).map(({ kind }) => kind);
  return Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((each) => each === kind).length]));
}

const readJson = async (path: string) => JSON.parse(await readFile(path, 'utf8'));
const supervisorPid = async (h: LocalHarness, job: EngineJob): Promise<number> =>
  (await readJson(join(h.recordOf(job), 'start.json'))).supervisor.pid;

/** Tells a supervisor to run a job that the engine under test does not know, as an earlier process may have left one. */
function startSupervisor(h: LocalHarness, job: EngineJob): Promise<string | null> {
  const client = createSupervisorClient({ logFile: supervisorLog, maxIdleMs: 0 });
  const settings = { limits: h.options };
  return new Promise((onEnd) => client.run({ folder: h.recordOf(job), settings, onClaim() {}, onExit() {}, onEnd }));
}

localTest(
  'a job whose supervisor is killed is lost, and its processes and temporary files are removed',
  {},
  async (h) => {
    const job = await h.newJob(shellLine('setsid sleep 600 & sleep 601 & touch ready; sleep 602'));
    await h.engine.submit(job, neverAborted);
    const { startedAt } = await waitUntilRunning(h.engine, job.jobId);
    await eventually('the job is ready', async () => existsSync(join(job.workspace.directory, 'ready')));
    process.kill(await supervisorPid(h, job), 'SIGKILL');
    const end = await waitUntilFinished(h.engine, job.jobId);
    assert.equal(end.reason, 'its supervisor died (was the machine restarted?)');
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['lost', startedAt, 0]);
    await assertNoProcessLeft(job.jobId);
    assert.ok(!existsSync(`${job.workspace.directory}.tmp`));
    assert.deepEqual(await waitUntilFinished(await h.reopen(), job.jobId), end);
  },
);

localTest('a supervisor that receives SIGTERM ends its job with outcome node_failed', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, job.jobId);
  process.kill(await supervisorPid(h, job), 'SIGTERM');
  const end = await waitUntilFinished(h.engine, job.jobId);
  assert.deepEqual(
    [end.outcome, end.reason],
    ['node_failed', 'its supervisor was told to stop (is the machine shutting down?)'],
  );
});

localTest('another process with the pid of a dead supervisor is not taken for the supervisor', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, job.jobId);
  process.kill(await supervisorPid(h, job), 'SIGKILL');
  await h.engine.close();
  const path = join(h.recordOf(job), 'start.json');
  const start = await readJson(path);
  await writeFile(path, JSON.stringify({ ...start, supervisor: { ...start.supervisor, pid: process.pid } }));
  assert.equal((await observeJob(await h.reopen(), job.jobId))?.kind, 'finished');
});

localTest('only one of several supervisors runs the job', {}, async (h) => {
  const { holder, queued } = await queueBehind(h, shellLine('echo ran >> runs; sleep 0.2'));
  const failures = await Promise.all([1, 2, 3, 4].map(() => startSupervisor(h, queued)));
  assert.deepEqual(failures, [null, null, null, null]);
  assert.equal((await waitUntilFinished(h.engine, queued.jobId)).outcome, 'succeeded');
  await letFinish(holder);
  assert.equal(await countRuns(queued), 1);
});

localTest('counts the cores of a job whose supervisor an earlier process started', { cores: 1 }, async (h) => {
  const { holder, queued } = await queueBehind(h, runUntilReleased);
  const last = await h.newJob(runOnce);
  await h.engine.submit(last, neverAborted);
  void startSupervisor(h, queued);
  await waitUntilRunning(h.engine, queued.jobId);
  assert.deepEqual(await countStates(h.engine), { running: 2, queued: 1 });
  await letFinish(holder);
  await waitUntilFinished(h.engine, holder.jobId);
  assert.equal((await observeJob(h.engine, last.jobId))?.kind, 'queued');
  await letFinish(queued);
  assert.equal((await waitUntilFinished(h.engine, last.jobId)).outcome, 'succeeded');
  assert.equal(await countRuns(queued), 1);
});

localTest('every poll reads a job that a supervisor of an earlier process may claim', { cores: 1 }, async (h) => {
  const { last } = await queueMany(h);
  recordOffer(h.recordOf(last));
  const engine = await h.reopen();
  void startSupervisor(h, last);
  const startFile = join(h.recordOf(last), 'start.json');
  await eventually('the supervisor has claimed the job', async () => existsSync(startFile));
  assert.equal((await observeJob(engine, last.jobId))?.kind, 'running');
  assert.deepEqual(await countStates(engine), { running: 2, queued: 61 });
});

localTest('a job that is cancelled between its claim and its start does not run', {}, async (h) => {
  const { holder, queued } = await queueBehind(h, runOnce);
  await requestCancellation(h.recordOf(queued));
  void startSupervisor(h, queued);
  const end = await waitUntilFinished(h.engine, queued.jobId);
  assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
  await letFinish(holder);
  assert.equal(await countRuns(queued), 0);
});

localTest('a job that the engine has ended does not start, even if its supervisor continues later', {}, async (h) => {
  const { holder, queued } = await queueBehind(h, runOnce);
  const end = buildLostEnd('its supervisor did not respond', null, Date.now());
  await recordEnd(h.recordOf(queued), end);
  assert.equal(await startSupervisor(h, queued), null);
  const { outcome, reason } = await waitUntilFinished(h.engine, queued.jobId);
  assert.deepEqual([outcome, reason], [end.outcome, end.reason]);
  await letFinish(holder);
  assert.equal(await countRuns(queued), 0);
});

localTest('every job runs exactly once although Bursar is killed at random times', { cores: 3 }, async (h) => {
  const jobs: EngineJob[] = [];
  const host = fileURLToPath(import.meta.resolve('./engine-host.ts'));
  const input = join(h.root, 'input.json');
  await h.engine.close();
  for (let round = 0; round < (isLongRun ? 15 : 5); round++) {
    for (let n = 0; n < 2; n++) jobs.push(await h.newJob(shellLine(`echo ran >> runs; sleep 0.${round % 4}`)));
    await writeFile(input, JSON.stringify({ options: h.options, logFile: supervisorLog, jobs }));
    const bursar = spawn(process.execPath, [host, input], { stdio: ['ignore', 'ignore', 'inherit'] });
    await sleep(120 + Math.random() * 350);
    bursar.kill('SIGKILL');
    await once(bursar, 'exit');
  }
  const reopened = await h.reopen();
  for (const job of jobs) await reopened.submit(job, neverAborted);
  for (const job of jobs) assert.equal((await waitUntilFinished(reopened, job.jobId)).outcome, 'succeeded');
  assert.deepEqual(await Promise.all(jobs.map(countRuns)), Array(jobs.length).fill(1));
});

localTest('if a supervisor with several jobs is killed, they are lost and others run', { cores: 3 }, async (h) => {
  const killed = await Promise.all([1, 2, 3].map(() => h.newJob(runUntilReleased)));
  const waiting = await Promise.all([1, 2, 3].map(() => h.newJob(runOnce)));
  for (const job of [...killed, ...waiting]) await h.engine.submit(job, neverAborted);
  for (const job of killed) await eventually('the job runs', async () => (await countRuns(job)) === 1);
  const pids = await Promise.all(killed.map((job) => supervisorPid(h, job)));
  assert.equal(new Set(pids).size, 1);
  process.kill(pids[0] ?? 0, 'SIGKILL');
  for (const job of waiting) assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
  for (const job of killed) {
    const { outcome, elapsedSeconds } = await waitUntilFinished(h.engine, job.jobId);
    assert.deepEqual([outcome, elapsedSeconds], ['lost', 0]);
    await assertNoProcessLeft(job.jobId);
  }
  assert.deepEqual(await Promise.all([...killed, ...waiting].map(countRuns)), [1, 1, 1, 1, 1, 1]);
});

localTest('no job runs twice although supervisors are killed at random times', { cores: 3 }, async (h) => {
  const jobs: EngineJob[] = [];
  for (let round = 0; round < (isLongRun ? 15 : 4); round++) {
    for (let n = 0; n < 3; n++) jobs.push(await h.newJob(shellLine(`echo ran >> runs; sleep 0.${round % 4}`)));
    for (const job of jobs.slice(-3)) await h.engine.submit(job, neverAborted);
    // Between the start of a supervisor and its claims, or before or after.
    await sleep(Math.random() * 300);
    for (const { pid, parent, command } of listProcesses())
      if (parent === process.pid && command.includes('supervisor.ts')) process.kill(pid, 'SIGKILL');
    await observeAll(h.engine);
  }
  for (const job of jobs) {
    const { outcome } = await waitUntilFinished(h.engine, job.jobId);
    const runs = await countRuns(job);
    assert.ok(outcome === 'succeeded' ? runs === 1 : outcome === 'lost' && runs <= 1, `${outcome} after ${runs} runs`);
  }
});

localTest('jobs of the supervisors of two killed servers end beside those of a third', { cores: 3 }, async (h) => {
  const jobs = await Promise.all([1, 2, 3].map(() => h.newJob(runUntilReleased)));
  const host = fileURLToPath(import.meta.resolve('./engine-host.ts'));
  const input = join(h.root, 'input.json');
  await h.engine.close();
  for (const count of [1, 2]) {
    await writeFile(input, JSON.stringify({ options: h.options, logFile: supervisorLog, jobs: jobs.slice(0, count) }));
    const bursar = spawn(process.execPath, [host, input], { stdio: ['ignore', 'ignore', 'inherit'] });
    const job = jobs[count - 1] as EngineJob;
    await eventually('the job runs', async () => (await countRuns(job)) === 1);
    bursar.kill('SIGKILL');
    await once(bursar, 'exit');
  }
  const engine = await h.reopen();
  const last = jobs[2] as EngineJob;
  await engine.submit(last, neverAborted);
  for (const job of jobs) await waitUntilRunning(engine, job.jobId);
  const pids = await Promise.all(jobs.map((job) => supervisorPid(h, job)));
  assert.equal(new Set(pids).size, 3);
  // Killing one of them affects only its own job.
  process.kill(pids[0] ?? 0, 'SIGKILL');
  for (const job of jobs) await letFinish(job);
  const ends = await Promise.all(jobs.map((job) => waitUntilFinished(engine, job.jobId)));
  assert.ok(['lost', 'succeeded'].includes(ends[0]?.outcome ?? ''));
  assert.deepEqual(
    ends.slice(1).map(({ outcome }) => outcome),
    ['succeeded', 'succeeded'],
  );
  assert.deepEqual(await Promise.all(jobs.map(countRuns)), [1, 1, 1]);
  for (const pid of pids.slice(0, 2))
    await eventually('a supervisor whose server has ended exits with its last job', async () => !processExists(pid));
});

localTest('a closed engine does not keep its process alive, and its jobs continue', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.close();
  const program = `
    import { createLocalEngine } from ${JSON.stringify(import.meta.resolve('../../../../src/engines/local/engine.ts'))};
    import { createSupervisorClient } from ${JSON.stringify(import.meta.resolve('../../../../src/engines/local/supervisor/client.ts'))};
    const never = new AbortController().signal;
    const supervisor = createSupervisorClient({ logFile: ${JSON.stringify(supervisorLog)} });
    const engine = createLocalEngine({ ...${JSON.stringify(h.options)}, supervisor });
    await engine.open(never);
    await engine.submit(${JSON.stringify(job)}, never);
    while ((await engine.observe(new Map(), never))[0].kind !== 'running');
    await engine.close();`;
  const bursar = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' });
  assert.deepEqual(await once(bursar, 'exit'), [0, null]);
  const reopened = await h.reopen();
  assert.equal((await observeJob(reopened, job.jobId))?.kind, 'running');
  await letFinish(job);
  assert.equal((await waitUntilFinished(reopened, job.jobId)).outcome, 'succeeded');
});

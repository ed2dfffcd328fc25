import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BursarError } from '../../../../src/domain/errors.ts';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { requestCancellation } from '../../../../src/engines/local/records.ts';
import { createLocalShell } from '../../../../src/shell/local-shell.ts';
import { createSpawnClient } from '../../../../src/shell/spawn-client.ts';
import { assertNoProcessLeft, type LocalHarness, localTest } from '../../../engines/local/harness.ts';
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
import { until } from '../../../support/until.ts';
import { queueBehind, queueMany } from './queued-jobs.ts';

const readJson = async (path: string) => JSON.parse(await readFile(path, 'utf8'));
const supervisorPid = async (h: LocalHarness, job: EngineJob): Promise<number> =>
  (await readJson(join(h.recordOf(job), 'start.json'))).supervisor.pid;

/** Starts a supervisor that the engine under test does not know, as an earlier process may have left one. */
function startSupervisor(h: LocalHarness, job: EngineJob): ChildProcess {
  const script = fileURLToPath(import.meta.resolve('../../../../src/engines/local/supervisor.ts'));
  return spawn(process.execPath, [script, h.recordOf(job), JSON.stringify({ limits: h.options })], {
    stdio: 'ignore',
    env: {},
  });
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
  const supervisors = [1, 2, 3, 4].map(() => startSupervisor(h, queued));
  await Promise.all(supervisors.map((supervisor) => once(supervisor, 'exit')));
  assert.equal((await waitUntilFinished(h.engine, queued.jobId)).outcome, 'succeeded');
  await letFinish(holder);
  assert.equal(await countRuns(queued), 1);
});

localTest('counts the cores of a job whose supervisor an earlier process started', { cores: 1 }, async (h) => {
  const { holder, queued } = await queueBehind(h, runUntilReleased);
  const last = await h.newJob(runOnce);
  await h.engine.submit(last, neverAborted);
  startSupervisor(h, queued);
  await waitUntilRunning(h.engine, queued.jobId);
  assert.match((await h.engine.health(neverAborted)).detail, /^2 of 1 cores in use, 2 running, 1 queued/);
  await letFinish(holder);
  await waitUntilFinished(h.engine, holder.jobId);
  assert.equal((await observeJob(h.engine, last.jobId))?.kind, 'queued');
  await letFinish(queued);
  assert.equal((await waitUntilFinished(h.engine, last.jobId)).outcome, 'succeeded');
  assert.equal(await countRuns(queued), 1);
});

localTest('every poll reads a job that a supervisor of an earlier process may claim', { cores: 1 }, async (h) => {
  const { last } = await queueMany(h);
  // Created before a supervisor is started.
  await writeFile(join(h.recordOf(last), 'supervisor.log'), '');
  const engine = await h.reopen();
  startSupervisor(h, last);
  const startFile = join(h.recordOf(last), 'start.json');
  await eventually('the supervisor has claimed the job', async () => existsSync(startFile));
  assert.equal((await observeJob(engine, last.jobId))?.kind, 'running');
  assert.match((await engine.health(neverAborted)).detail, /^2 of 1 cores in use, 2 running, 61 queued/);
});

localTest('a job that is cancelled between its claim and its start does not run', {}, async (h) => {
  const { holder, queued } = await queueBehind(h, runOnce);
  await requestCancellation(h.recordOf(queued));
  startSupervisor(h, queued);
  const end = await waitUntilFinished(h.engine, queued.jobId);
  assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
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
    await writeFile(input, JSON.stringify({ options: h.options, jobs }));
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

const spawnClient = createSpawnClient();
const { startDetached } = spawnClient;

/** Kills the spawn server of the engine. The next job, and the next command, start another one. */
async function killSpawnServer(): Promise<void> {
  const shell = createLocalShell({ environment: {}, startProcess: spawnClient.startProcess });
  const limits = { signal: neverAborted, timeoutMs: 60_000, maxOutputBytes: 100 };
  // The client may not have noticed yet that the process was killed before: the command is then interrupted.
  const { stdout } = await until('the process answers', () =>
    shell.run(['sh', '-c', 'echo $PPID'], limits).catch((error: BursarError) => {
      if (error.code === 'unavailable') return undefined;
      throw error;
    }),
  );
  process.kill(Number(stdout), 'SIGKILL');
}

localTest('a job continues if the process that started its supervisor is killed', { startDetached }, async (h) => {
  const jobs = [await h.newJob(runUntilReleased), await h.newJob(runUntilReleased)] as const;
  const [before, after] = jobs;
  await h.engine.submit(before, neverAborted);
  await waitUntilRunning(h.engine, before.jobId);
  await killSpawnServer();
  await h.engine.submit(after, neverAborted);
  await waitUntilRunning(h.engine, after.jobId);
  assert.equal((await observeJob(h.engine, before.jobId))?.kind, 'running');
  assert.match((await h.engine.health(neverAborted)).detail, /^2 of 4 cores in use, 2 running, 0 queued/);
  for (const job of jobs) {
    await letFinish(job);
    assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
  }
});

localTest(
  'every job runs exactly once although supervisors lose their parent',
  { cores: 3, startDetached },
  async (h) => {
    const jobs: EngineJob[] = [];
    for (let round = 0; round < (isLongRun ? 8 : 3); round++) {
      for (let n = 0; n < 2; n++) jobs.push(await h.newJob(shellLine('echo ran >> runs')));
      for (const job of jobs.slice(-2)) await h.engine.submit(job, neverAborted);
      // Between the start of a supervisor and its claim, or shortly before or after.
      await sleep(Math.random() * 200);
      await killSpawnServer();
      await observeAll(h.engine);
    }
    for (const job of jobs) assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all(jobs.map(countRuns)), Array(jobs.length).fill(1));
  },
);

localTest('a closed engine does not keep its process alive, and its jobs continue', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.close();
  const program = `
    import { createLocalEngine } from ${JSON.stringify(import.meta.resolve('../../../../src/engines/local/engine.ts'))};
    import { createSpawnClient } from ${JSON.stringify(import.meta.resolve('../../../../src/shell/spawn-client.ts'))};
    const never = new AbortController().signal;
    const engine = createLocalEngine({ ...${JSON.stringify(h.options)}, startDetached: createSpawnClient().startDetached });
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

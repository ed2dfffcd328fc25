import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BursarError } from '../../../src/domain/errors.ts';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { isCancellationRequested, publishRequest, requestCancellation } from '../../../src/engines/local/records.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { createSpawnClient } from '../../../src/shell/spawn-client.ts';
import { until } from '../../support/until.ts';
import { eventually, neverAborted, observeAll, observeJob, waitUntilFinished, waitUntilRunning } from '../observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../test-jobs.ts';
import { assertNoProcessLeft, type LocalHarness, localTest } from './harness.ts';

const readJson = async (path: string) => JSON.parse(await readFile(path, 'utf8'));
const supervisorPid = async (h: LocalHarness, job: EngineJob): Promise<number> =>
  (await readJson(join(h.recordOf(job), 'start.json'))).supervisor.pid;

/** Starts a supervisor that the engine under test does not know, as an earlier process may have left one. */
function startSupervisor(h: LocalHarness, job: EngineJob): ChildProcess {
  const script = fileURLToPath(import.meta.resolve('../../../src/engines/local/supervisor.ts'));
  return spawn(process.execPath, [script, h.recordOf(job), JSON.stringify({ limits: h.options })], {
    stdio: 'ignore',
    env: {},
  });
}

/** Submits a job that occupies all cores, and a second one that waits for it. */
async function queueBehind(h: LocalHarness, overrides: Pick<EngineJob, 'command'>) {
  const [holder, queued] = [await h.newJob({ ...runUntilReleased, ...h.wholeSystem }), await h.newJob(overrides)];
  for (const job of [holder, queued]) await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, holder.jobId);
  return { holder, queued };
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

/** Queues more jobs than a poll reads, behind a job that occupies all cores, and returns the last one of them. */
async function queueMany(h: LocalHarness): Promise<{ holder: EngineJob; last: EngineJob }> {
  const { holder, queued } = await queueBehind(h, runUntilReleased);
  await h.engine.close();
  for (let sequence = 3; sequence < 63; sequence++) {
    const job = { ...queued, jobId: `many-${sequence}`, ...runOnce };
    await mkdir(h.recordOf(job));
    await writeFile(join(h.recordOf(job), 'request.json'), JSON.stringify({ sequence, job }));
  }
  const last = await h.newJob(runUntilReleased);
  await publishRequest(h.recordOf(last), { sequence: 63, job: last });
  return { holder, last };
}

localTest('a poll reads only some of the jobs that wait, and polls in a row read all', { cores: 1 }, async (h) => {
  const { last } = await queueMany(h);
  const engine = await h.reopen();
  await rm(h.recordOf(last), { recursive: true });
  assert.equal((await observeJob(engine, last.jobId))?.kind, 'queued');
  await eventually('all jobs have been read', async () => (await observeJob(engine, last.jobId)) === undefined);
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

localTest('a recorded cancellation ends the job even if the signal is lost', {}, async (h) => {
  const job = await h.newJob(runUntilReleased);
  await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, job.jobId);
  await requestCancellation(h.recordOf(job));
  assert.ok(await isCancellationRequested(h.recordOf(job)));
  assert.equal((await waitUntilFinished(h.engine, job.jobId)).reason, 'cancelled by its owner');
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

localTest('a job whose supervisor cannot be started stays queued and is retried', { cores: 1 }, async (h) => {
  const { holder, queued } = await queueBehind(h, runOnce);
  const obstacle = join(h.recordOf(queued), 'supervisor.log');
  await mkdir(obstacle);
  await letFinish(holder);
  await waitUntilFinished(h.engine, holder.jobId);
  await eventually('the error is reported', async () =>
    (await h.engine.health(neverAborted)).detail.includes('EISDIR'),
  );
  assert.equal((await observeJob(h.engine, queued.jobId))?.kind, 'queued');
  await rmdir(obstacle);
  assert.equal((await waitUntilFinished(h.engine, queued.jobId)).outcome, 'succeeded');
});

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
  assert.deepEqual((await readdir(directory)).filter((name) => !/^\.(cache|health)$/.test(name)).sort(), [
    job.jobId,
    'foreign',
  ]);
  assert.deepEqual([existsSync(temporary(2 ** 22 + 1)), existsSync(temporary(process.pid))], [false, true]);
  assert.deepEqual(
    (await observeAll(reopened)).map(({ jobId }) => jobId),
    [job.jobId],
  );
});

localTest('every job runs exactly once although Bursar is killed at random times', { cores: 3 }, async (h) => {
  const jobs: EngineJob[] = [];
  const host = fileURLToPath(import.meta.resolve('./engine-host.ts'));
  const input = join(h.root, 'input.json');
  await h.engine.close();
  for (let round = 0; round < 15; round++) {
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
    for (let round = 0; round < 8; round++) {
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
    import { createLocalEngine } from ${JSON.stringify(import.meta.resolve('../../../src/engines/local/engine.ts'))};
    import { createSpawnClient } from ${JSON.stringify(import.meta.resolve('../../../src/shell/spawn-client.ts'))};
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

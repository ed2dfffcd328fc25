import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { identifyProcess, processExists, waitForProcessEnd } from '../../../../src/engines/local/processes.ts';
import { requestCancellation } from '../../../../src/engines/local/records.ts';
import { createSupervisorClient } from '../../../../src/engines/local/supervisor/client.ts';
import { assertNoProcessLeft, type LocalHarness, localTest, supervisorLog } from '../../../engines/local/harness.ts';
import { eventually, neverAborted, observeJob, waitUntilFinished } from '../../../engines/observing.ts';
import { runOnce, shellLine } from '../../../engines/test-jobs.ts';

// A job runs as the same user as its supervisor, so it can stop the supervisor that enforces its limits.

const stopSupervisor = 'kill -STOP $PPID';
/** Stops the supervisor again whenever it continues, and ignores SIGTERM. */
const keepStopping = 'trap "" TERM; touch ready; while :; do kill -STOP $SUPERVISOR; done';
const stopForEver = `SUPERVISOR=$PPID; ${keepStopping}`;
const options = { cores: 1, killGraceSeconds: 0.2, supervisorGraceSeconds: 1 };

async function submit(h: LocalHarness, overrides: Parameters<LocalHarness['newJob']>[0]) {
  const job = await h.newJob({ runtimeSeconds: 600, ...overrides });
  await h.engine.submit(job, neverAborted);
  return job;
}

const untilReady = (job: EngineJob) =>
  eventually('the job is ready', async () => existsSync(join(job.workspace.directory, 'ready')));

async function assertSlotIsFree(h: LocalHarness) {
  const next = await submit(h, runOnce);
  assert.equal((await waitUntilFinished(h.engine, next.jobId)).outcome, 'succeeded');
}

localTest('a stopped supervisor continues, and reports how the job ended', options, async (h) => {
  const job = await submit(h, shellLine(`${stopSupervisor}; exit 3`));
  const end = await waitUntilFinished(h.engine, job.jobId);
  assert.deepEqual([end.outcome, end.exitCode], ['failed', 3]);
});

localTest(
  'a stopped supervisor ends its job when the job is cancelled',
  { ...options, supervisorGraceSeconds: 600 },
  async (h) => {
    const job = await submit(h, shellLine(`${stopSupervisor}; touch ready; sleep 600`));
    await untilReady(job);
    await h.engine.cancel(job.jobId, neverAborted);
    const end = await waitUntilFinished(h.engine, job.jobId);
    assert.deepEqual([end.outcome, end.reason], ['cancelled', 'cancelled by its owner']);
  },
);

for (const [name, line] of [
  ['stops its supervisor for ever', stopForEver],
  ['stops its supervisor for ever from another session', `SUPERVISOR=$PPID setsid sh -c '${keepStopping}' & sleep 600`],
] as const) {
  localTest(`a job that ${name} is killed after its time limit`, options, async (h) => {
    const job = await submit(h, { ...shellLine(line), runtimeSeconds: 2 });
    const end = await waitUntilFinished(h.engine, job.jobId);
    assert.equal(end.outcome, 'timed_out');
    assert.match(end.reason, /^it reached its time limit of 2 s( \(its supervisor did not respond\))?$/);
    await assertNoProcessLeft(job.jobId);
    await assertSlotIsFree(h);
  });

  localTest(`a job that ${name} is killed when it is cancelled`, options, async (h) => {
    const job = await submit(h, shellLine(line));
    await untilReady(job);
    await h.engine.cancel(job.jobId, neverAborted);
    const end = await waitUntilFinished(h.engine, job.jobId);
    assert.equal(end.outcome, 'cancelled');
    assert.match(end.reason, /^cancelled by its owner/);
    await assertNoProcessLeft(job.jobId);
    await assertSlotIsFree(h);
  });
}

localTest(
  'a supervisor that does not claim jobs is replaced, and its other jobs continue',
  { ...options, cores: 2, supervisor: createSupervisorClient({ logFile: supervisorLog, maxClaimMs: 1000 }) },
  async (h) => {
    const stopping = await submit(h, shellLine(stopForEver));
    await untilReady(stopping);
    await assertSlotIsFree(h);
    assert.equal((await observeJob(h.engine, stopping.jobId))?.kind, 'running');
  },
);

localTest(
  'a supervisor without a job ends, and the next job gets another one',
  { ...options, supervisor: createSupervisorClient({ logFile: supervisorLog, maxIdleMs: 0 }) },
  async (h) => {
    const pids: number[] = [];
    for (let n = 0; n < 2; n++) {
      const job = await submit(h, runOnce);
      assert.equal((await waitUntilFinished(h.engine, job.jobId)).outcome, 'succeeded');
      pids.push(JSON.parse(await readFile(join(h.recordOf(job), 'start.json'), 'utf8')).supervisor.pid);
      await eventually('the supervisor ends', async () => !processExists(pids[n] ?? 0));
    }
    assert.equal(new Set(pids).size, 2);
  },
);

/**
 * Replaces the supervisor of a job by a process that never responds, and lets the job have started 100 s earlier. A supervisor
 * that is only stopped continues when the engine looks at it, and may end the job first.
 */
async function replaceSupervisor(h: LocalHarness, job: EngineJob): Promise<ChildProcess> {
  const path = join(h.recordOf(job), 'start.json');
  const { supervisor, startedAtMonotonicMs, ...start } = JSON.parse(await readFile(path, 'utf8'));
  process.kill(supervisor.pid, 'SIGKILL');
  assert.ok(await waitForProcessEnd(supervisor, 60_000));
  const replacement = spawn('sleep', ['600'], { stdio: 'ignore' });
  const { pid = 0 } = replacement;
  const replaced = { supervisor: await identifyProcess(pid), startedAtMonotonicMs: startedAtMonotonicMs - 100_000 };
  await writeFile(path, JSON.stringify({ ...start, ...replaced }));
  return replacement;
}

for (const [outcome, reason, runtimeSeconds] of [
  ['timed_out', 'it reached its time limit of 1 min (its supervisor did not respond)', 60],
  ['cancelled', 'cancelled by its owner (its supervisor did not respond)', 600],
] as const) {
  localTest(`a job that is overdue at the start of the engine is killed: ${outcome}`, options, async (h) => {
    const job = await submit(h, { ...shellLine('setsid sleep 600 & touch ready; sleep 601'), runtimeSeconds });
    await untilReady(job);
    await h.engine.close();
    const supervisor = await replaceSupervisor(h, job);
    if (outcome === 'cancelled') await requestCancellation(h.recordOf(job));
    // Longer than a supervisor gets.
    await sleep(1500);
    await h.reopen();
    const end = await observeJob(h.engine, job.jobId);
    assert.ok(end?.kind === 'finished');
    assert.deepEqual([end.outcome, end.reason, end.exitCode], [outcome, reason, null]);
    assert.ok(end.elapsedSeconds >= 100, 'the time until the end');
    await assertNoProcessLeft(job.jobId);
    assert.ok(!existsSync(`${job.workspace.directory}.tmp`));
    await assertSlotIsFree(h);
    const reopened = await h.reopen();
    assert.deepEqual(await observeJob(reopened, job.jobId), end);
    assert.ok(supervisor.kill(), 'the supervisor may have other jobs');
  });
}

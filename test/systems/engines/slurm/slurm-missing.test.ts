import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { appendFile, rm, writeFile } from 'node:fs/promises';
import { describe } from 'node:test';
import type { Engine, EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { eventually, neverAborted } from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import { type OwnClusterHarness, ownClusterTest } from './own-cluster.ts';

/** No accounting; slurmctld removes finished jobs from the queue within 12 s. */
const withoutAccounting = { accounting: 'none', minJobAge: 2 } as const;

/** Returns the record of the job, or `['forgotten', record]`. */
async function inspect(engine: Engine, { jobId, workspace }: EngineJob, ref: string, acceptedAt = 0) {
  const missing = new Map([[jobId, { ref, workspace, acceptedAt }]]);
  const status = (await engine.inspectMissing(missing, neverAborted)).get(jobId);
  return status?.isForgotten ? ['forgotten', status.record] : status?.record;
}
const forgotten = ['forgotten', 'never_started'];

/** Slurm may have forgotten the end before the test looks. */
const waitUntilRecorded = ({ workspace }: EngineJob) =>
  eventually('the end is recorded', async () => existsSync(`${workspace.directory}.started/end`));

const waitUntilGone = ({ engine }: Pick<OwnClusterHarness, 'engine'>, job: EngineJob) =>
  eventually(`${job.jobId} has left the queue`, async () => (await engine.find([job], neverAborted)).size === 0);

// Each test has its own cluster, so that they all wait for slurmctld at the same time.
describe('inspectMissing', { concurrency: true }, () => {
  ownClusterTest(
    'reports a job that was cancelled before its start as never started, not as lost',
    withoutAccounting,
    async (harness) => {
      const { engine, newJob, wholeSystem, cluster, reopen } = harness;
      const [held, running, pending] = [
        await newJob(runOnce),
        await newJob({ ...runUntilReleased, ...wholeSystem }),
        await newJob(runOnce),
      ];
      const first = await engine.submit(held, neverAborted);
      await withAutomaticRelease(engine).submit(running, neverAborted);
      const second = await withAutomaticRelease(engine).submit(pending, neverAborted);
      cluster.run('scancel', first, second);
      for (const job of [held, pending]) await waitUntilGone(harness, job);
      for (const candidate of [engine, await reopen()]) {
        assert.equal(await inspect(candidate, held, first), 'never_started');
        assert.equal(await inspect(candidate, pending, second), 'never_started');
      }
      assert.deepEqual(await Promise.all([held, pending].map(countRuns)), [0, 0]);
    },
  );

  ownClusterTest(
    'reads the end record of a job that ran, and reports nothing if the workspace is unreachable',
    withoutAccounting,
    async (harness) => {
      const { engine, newJob, cluster } = harness;
      const [ran, lost] = [await newJob(runOnce), await newJob(runOnce)];
      const first = await withAutomaticRelease(engine).submit(ran, neverAborted);
      const second = await engine.submit(lost, neverAborted);
      await waitUntilRecorded(ran);
      await waitUntilGone(harness, ran);
      await cluster.wipeController();
      const end = await inspect(engine, ran, first);
      assert.ok(typeof end === 'object' && 'outcome' in end);
      assert.deepEqual([end.outcome, end.exitCode], ['succeeded', 0]);
      assert.ok(end.startedAt !== null && end.endedAt >= end.startedAt && end.elapsedSeconds >= 1);
      assert.deepEqual(await inspect(engine, lost, second), forgotten);
      const unreachable = { ...lost, workspace: { ...lost.workspace, directory: '/nowhere/files' } };
      assert.equal(await inspect(engine, unreachable, second), undefined);
    },
  );

  ownClusterTest(
    'reads an end record only after the job has ended, including death by a signal',
    withoutAccounting,
    async (harness) => {
      const { engine, newJob, cluster } = harness;
      const [held, killed] = [await newJob(runUntilReleased), await newJob(shellLine('sleep 1; kill -SEGV $$'))];
      const refs = [
        await withAutomaticRelease(engine).submit(held, neverAborted),
        await withAutomaticRelease(engine).submit(killed, neverAborted),
      ] as const;
      await eventually('the job runs', async () => (await countRuns(held)) === 1);
      await waitUntilRecorded(killed);
      await waitUntilGone(harness, killed);
      assert.equal(await inspect(engine, held, refs[0]), 'not_ended');
      const end = await inspect(engine, killed, refs[1]);
      assert.ok(typeof end === 'object' && 'outcome' in end);
      assert.deepEqual([end.outcome, end.reason], ['failed', 'killed by SIGSEGV']);
      await letFinish(held);
      await waitUntilRecorded(held);
      await cluster.wipeController();
      assert.equal(((await inspect(engine, held, refs[0])) as { outcome: string }).outcome, 'succeeded');
    },
  );

  ownClusterTest('ignores an incomplete or malformed end record', withoutAccounting, async (harness) => {
    const { engine, newJob } = harness;
    const [ran, other] = [await newJob(runOnce), await newJob(runOnce)];
    const refs = [
      await withAutomaticRelease(engine).submit(ran, neverAborted),
      await withAutomaticRelease(engine).submit(other, neverAborted),
    ] as const;
    for (const job of [ran, other]) await waitUntilRecorded(job);
    for (const job of [ran, other]) await waitUntilGone(harness, job);
    await rm(`${other.workspace.directory}.started/end`);
    const missing = new Map([
      [ran.jobId, { ref: refs[0], workspace: ran.workspace, acceptedAt: 0 }],
      [other.jobId, { ref: refs[1], workspace: other.workspace, acceptedAt: 0 }],
    ]);
    for (const text of [
      '',
      '\n',
      '0',
      '0 1',
      'zero 1 2\n',
      '0 1 2 3\n',
      '-1 1 2\n',
      ' 0 1 2\n',
      'x\n1 0 1 2\n',
      '1e3 1 2\n',
      'never_started\n',
    ]) {
      await writeFile(`${ran.workspace.directory}.started/end`, text);
      const found = await engine.inspectMissing(missing, neverAborted);
      for (const job of [ran, other]) assert.equal(found.get(job.jobId)?.record, 'not_ended', JSON.stringify(text));
    }
    await writeFile(`${ran.workspace.directory}.started/end`, '3 10 12\n1 0 1 2\n');
    const found = await engine.inspectMissing(missing, neverAborted);
    const record = found.get(ran.jobId)?.record;
    assert.equal(typeof record === 'object' && record.reason, 'exit code 3');
  });

  ownClusterTest(
    'reports a job as lost if the controller has not assigned its id yet',
    withoutAccounting,
    async (harness) => {
      const { engine, newJob, cluster, reopen } = harness;
      const lost = await newJob(runOnce);
      const ref = await engine.submit(lost, neverAborted);
      await cluster.wipeController();
      assert.deepEqual(await inspect(await reopen(), lost, ref), forgotten);
    },
  );

  ownClusterTest('reports a job as lost if its id belongs to another job', withoutAccounting, async (harness) => {
    const { engine, newJob, cluster, reopen } = harness;
    const lost = await newJob(runOnce);
    const ref = await engine.submit(lost, neverAborted);
    await cluster.wipeController();
    const other = cluster
      .run('sbatch', '--parsable', '--hold', '-J', 'other', '-o', '/dev/null', '--wrap', 'true')
      .trim();
    cluster.run('sbatch', '--hold', '-J', 'next', '-o', '/dev/null', '--wrap', 'true');
    assert.equal(other, ref);
    assert.deepEqual(await inspect(await reopen(), lost, ref), forgotten);
  });

  ownClusterTest('reports a job as lost if it was in the queue less than MinJobAge ago', {}, async (harness) => {
    const { engine, newJob, cluster, reopen } = harness;
    const lost = await newJob(runOnce);
    const ref = await engine.submit(lost, neverAborted);
    await engine.find([lost], neverAborted);
    await appendFile(cluster.env.SLURM_CONF, 'FirstJobId=1000\n');
    await cluster.wipeController();
    assert.deepEqual(await inspect(engine, lost, ref), forgotten);
    // An engine that did not see the job in the queue cannot tell: it may have been cancelled long ago.
    assert.equal(await inspect(await reopen(), lost, ref), 'never_started');
    // Unless the job did not exist that long ago.
    assert.deepEqual(await inspect(await reopen(), lost, ref, Date.now() - 60_000), forgotten);
  });
});

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { jobPath, waitForGoScript } from '../../support/jobs.ts';
import { spawnServer } from '../../support/server-process.ts';
import { type ClusterOptions, startCluster } from '../../support/slurm-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';

async function startService(t: TestContext, options: ClusterOptions = {}) {
  const cluster = await startCluster(options);
  const server = await spawnServer({ config: slurmConfig(cluster) });
  t.after(async () => {
    await server.dispose();
    await cluster.stop();
  });
  const me = createCaller(server.url, server.userToken);
  return {
    ...{ cluster, me },
    workspaceOf: (job: Job) => join(server.data, 'workspaces', job.job_id),
    async submit(command: string): Promise<Job> {
      const { status, body, text } = await me.submit('/jobs/hpc_one/', { command, runtime: '0.5' });
      assert.equal(status, 201, text);
      return body;
    },
    waitUntilRunning: (job: Job) =>
      until('the job runs', async () => (await me.get<Job>(jobPath(job))).body.stage === 'RUNNING' || undefined),
    async chargedSeconds(job: Job): Promise<number> {
      return (await me.get<{ charged_seconds: number }>(`${jobPath(job)}timeline/`)).body.charged_seconds;
    },
  };
}

// With their own clusters the tests wait at the same time.
describe('jobs that Slurm reports wrongly', { concurrency: true }, () => {
  test('have the outcome and the charge of their end record if Slurm takes their node for failed', async (t) => {
    const { cluster, me, submit, workspaceOf, chargedSeconds } = await startService(t, { nodes: 1 });
    // Every job that ran is charged for at least a second: this one runs for longer.
    const job = await submit(`date +%s; ${waitForGoScript}; sleep 2; date +%s`);
    const readTimes = async () => {
      const text = await readFile(join(workspaceOf(job), 'stdout'), 'utf8').catch(() => '');
      return text.trim().split('\n').filter(Boolean).map(Number);
    };
    await until('the job runs', async () => (await readTimes())[0]);
    const slurmStart = Date.parse(cluster.run('squeue', '-h', '-n', job.job_id, '-o', '%S').trim()) / 1000;
    await cluster.killNodeDaemons('n1');
    await writeFile(join(workspaceOf(job), 'files', 'go'), '');
    // The record of the wrapper: it begins before the command, by the time that the sandbox needs, and ends after it.
    const recordFile = join(workspaceOf(job), 'files.started', 'end');
    await until('the job has recorded its end', () => existsSync(recordFile) || undefined);
    cluster.run('scontrol', 'update', 'NodeName=n1', 'State=DOWN', 'Reason=test');
    const { stage, failed } = await me.waitUntilFinished(job);
    assert.deepEqual([stage, failed], ['SUCCESSFUL', false]);
    const record = await readFile(recordFile, 'utf8');
    const [exitCode, start = 0, end = 0] = record.trim().split(' ').map(Number);
    const [commandStart = 0, commandEnd = 0] = await readTimes();
    assert.equal(exitCode, 0);
    assert.ok(
      start <= commandStart && commandEnd <= end,
      `${record} does not contain ${commandStart} to ${commandEnd}`,
    );
    // The job held its node from the start that Slurm reports, before that of the record, until the record was in its place:
    // the change time of the file. It may be in the next second after its content was written, and also some milliseconds
    // before the time in it: for files Linux reads a clock that advances only with each tick.
    const writtenAt = (await stat(recordFile)).ctimeMs / 1000;
    const charged = await chargedSeconds(job);
    assert.ok(
      end - start <= charged && charged <= Math.max(end - start, writtenAt - slurmStart),
      `${charged} s charged, recorded ${record}, written at ${writtenAt}, started by Slurm at ${slurmStart}`,
    );
  });

  test('end when their end record is read, although Slurm shows them as running', async (t) => {
    const { cluster, me, submit, waitUntilRunning, workspaceOf, chargedSeconds } = await startService(t);
    const job = await submit('sleep 600');
    await waitUntilRunning(job);
    const startRecord = join(workspaceOf(job), 'files.started');
    // Slurm creates stdout before the wrapper starts, so that only the start record shows that the job has started.
    await until('the job has started', () => existsSync(startRecord) || undefined);
    // As if the wrapper had written it, and the controller had missed the end. It has a longer runtime than Slurm knows of.
    const now = Math.round(Date.now() / 1000);
    await writeFile(join(startRecord, 'end'), `3 ${now - 170} ${now}\n`);
    const ended = await me.waitUntilFinished(job);
    assert.deepEqual([ended.stage, ended.failed], ['FAILED', true]);
    assert.equal(await chargedSeconds(job), 170);
    const listed = () => cluster.run('squeue', '-h', '-t', 'running', '-n', job.job_id);
    await until('the job leaves its node', () => listed() === '' || undefined);
  });

  test('are submitted again if a node refuses them before they start', async (t) => {
    // Slurm cancels a job whose prolog fails, and drains the node.
    const folder = await mkdtemp(join(tmpdir(), 'bursar-prolog-'));
    t.after(() => rm(folder, { recursive: true }));
    const prolog = join(folder, 'prolog');
    await chmod(folder, 0o755);
    await writeFile(prolog, '#!/bin/sh\n[ "$SLURMD_NODENAME" != n1 ]\n', { mode: 0o755 });
    // With this flag the job is not shown as running during the prolog: then it could not be submitted again.
    const extraConf = [`Prolog=${prolog}`, 'PrologFlags=Alloc'];
    const { cluster, me, submit, workspaceOf, chargedSeconds } = await startService(t, { extraConf });
    const job = await submit('echo "$SLURMD_NODENAME"');
    const { stage } = await me.waitUntilFinished(job);
    const { body: timeline } = await me.get<{ events: { event: string }[] }>(`${jobPath(job)}timeline/`);
    // On a busy machine a poll can see the job as running before its node refuses it. Then it fails, and costs nothing.
    if (stage === 'FAILED' && JSON.stringify(timeline).includes('job.running'))
      assert.equal(await chargedSeconds(job), 0);
    else assert.equal(await readFile(join(workspaceOf(job), 'stdout'), 'utf8'), 'n2\n');
    assert.match(cluster.run('sinfo', '-h', '-N', '-o', '%N %T'), /n1 drain/);
  });
});

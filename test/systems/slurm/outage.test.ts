import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
import { readMetric } from '../../support/metrics.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { notIsolatedSlurmConfig, slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';

interface Timeline {
  entries: { type: string; reason: string | null }[];
}

interface System {
  status: string;
  status_since: string;
}

let cluster: SlurmCluster;
before(async () => {
  cluster = await startCluster();
});
after(() => cluster.stop());

test('a job waits, and says why, while Slurm rejects the options of the site, and runs after their repair', async (t) => {
  const server = await spawnServer({ config: slurmConfig(cluster, { site: { partition: 'late' } }) });
  t.after(() => server.dispose());
  const me = createCaller(server.url, server.userToken);
  const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'true' });
  const reason = await until('the timeline says why the job waits', async () => {
    const { entries } = (await me.get<Timeline>(`${jobPath(job)}timeline/`)).body;
    return entries.find(({ type }) => type === 'job.delayed')?.reason;
  });
  assert.match(reason ?? '', /Invalid partition name specified .*Contact the operators: the job waits/);
  cluster.run('scontrol', 'create', 'PartitionName=late', 'Nodes=ALL', 'State=UP');
  assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
});

describe('a controller that is down, under load', () => {
  const accepted: Job[] = [];
  const failures: string[] = [];
  let server: ServerProcess;
  let me: Caller;
  let outputFolder: string;

  /** Submits a job and reads the job list every second, until the signal aborts. */
  async function submitUntil(stop: AbortSignal, name: string): Promise<void> {
    for (let n = 0; !stop.aborted; n++) {
      const command = `echo ran >> ${outputFolder}/ran-${name}-${n}`;
      const { status, body, text } = await me.submit('/jobs/hpc_one/', { command, title: `ran-${name}-${n}` });
      if (status === 201) accepted.push(body);
      else failures.push(text);
      const { status: listStatus } = await me.get('/jobs/');
      if (listStatus !== 200) failures.push(`GET /jobs/ answered ${listStatus}`);
      await sleep(1000);
    }
  }
  const systemWithStatus = (status: string) => async () => {
    const { body } = await me.get<System>('/hpc/hpc_one/');
    return body.status === status ? body : undefined;
  };

  before(async () => {
    outputFolder = cluster.folder;
    server = await spawnServer({ config: notIsolatedSlurmConfig(cluster) });
    me = createCaller(server.url, server.userToken);
  });
  after(() => server.dispose());

  test('accepts every submission, and shows the system as down', async () => {
    const stop = new AbortController();
    const users = ['a', 'b', 'c'].map((name) => submitUntil(stop.signal, name));
    await until('a first job', () => accepted[0]);
    await cluster.killController();
    const down = await until('the system is shown as down', systemWithStatus('down'));
    assert.ok(Date.parse(down.status_since) > 0);
    const failedCommands = 'bursar_scheduler_command_failures_total{hpc="hpc_one",command="squeue"}';
    assert.ok((await readMetric(server.url, failedCommands)) > 0);
    const before = accepted.length;
    await until('more jobs are accepted', () => accepted.length > before + 10 || undefined);
    // The controller has forgotten jobs that ran. A node still knows them, and would refuse to start others with the same ids.
    appendFileSync(cluster.env.SLURM_CONF, 'FirstJobId=1000\n');
    await cluster.startController();
    stop.abort();
    await Promise.all(users);
    assert.deepEqual(failures, []);
  });

  test('runs every accepted job exactly once afterwards', async () => {
    for (const job of accepted) assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL', job.title);
    const runs = accepted.map(({ title }) => readFileSync(join(outputFolder, title), 'utf8'));
    assert.deepEqual(new Set(runs), new Set(['ran\n']));
    await until('the system is shown as up', systemWithStatus('up'));
  });

  test('leaves a consistent ledger', async () => {
    assert.match((await server.bursar('ledger', 'verify')).stdout, /\d/);
  });
});

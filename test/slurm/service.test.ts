import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeZip } from '../files/hostile-zips.ts';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { slurmConfig } from './config.ts';

describe('the service in front of a real Slurm', () => {
  let cluster: SlurmCluster;
  let server: TestServer;
  let me: Caller;
  before(async () => {
    cluster = await startCluster({ nodes: 2 });
    server = await startServer({ config: slurmConfig(cluster) });
    me = callerOf(server.url, server.userToken);
  });
  after(async () => {
    await server.dispose();
    await cluster.stop();
  });

  test('a script of the zip runs on nodes and cores as asked, and is charged for what Slurm gave it', async () => {
    const zip = await makeZip({ 'run.sh': '#!/bin/sh\n#SBATCH --nodes=1\necho "$SLURM_NNODES $1"\nsleep 1\n' });
    const payload = { command: 'sbatch run.sh hello', node_number: '2', core_number: '3', runtime: '0.1', title: 'T' };
    const quota = await me.quota('hpc_one', 'proj_hpc_one_01');
    const { status, body } = await me.submit('/jobs/hpc_one/', payload, zip);
    assert.equal(status, 201);
    const job = await me.finished(body);
    assert.equal(job.stage, 'SUCCESSFUL');
    assert.equal(readFileSync(join(server.data, 'workspaces', job.job_id, 'stdout'), 'utf8'), '2 hello\n');
    const used = quota.time_left - (await me.quota('hpc_one', 'proj_hpc_one_01')).time_left;
    assert.ok(used > 0 && used % 6 === 0, `${used} seconds are not those of six cores`);
  });

  test('a failing job, a missing script and a refused option are told apart', async () => {
    const failing = (await me.submit('/jobs/hpc_one/', { command: 'exit 3' })).body;
    assert.equal((await me.finished(failing)).stage, 'FAILED');
    const missing = (await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' })).body;
    assert.equal((await me.finished(missing)).failed, true);
    const zip = await makeZip({ 'run.sh': '#!/bin/sh\n#SBATCH --uid=0\ntrue\n' });
    const refused = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
    assert.equal(refused.status, 400);
    assert.match(refused.text, /--uid/);
  });

  test('a running job is cancelled by DELETE', async () => {
    const { body } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600' });
    const path = `/jobs/hpc_one/proj_hpc_one_01/${body.job_id}/`;
    const { status } = await me.send('DELETE', path);
    assert.ok(status === 200 || status === 202);
    const job = await me.finished(body);
    assert.deepEqual([job.stage, job.failed], ['CANCELED', false]);
  });

  test('while the controller is down jobs are accepted, and they run when it is back', async () => {
    await cluster.stopController();
    const answers = [];
    for (let n = 0; n < 5; n++) answers.push(await me.submit('/jobs/hpc_one/', { command: `echo ${n}` }));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 201, 201, 201],
    );
    await cluster.startController();
    for (const { body } of answers) assert.equal((await me.finished(body as Job)).stage, 'SUCCESSFUL');
  });

  test('a system is shown with its health, and can be paused and resumed by administrators', async () => {
    const admin = callerOf(server.url, server.adminToken);
    const act = (name: string) =>
      admin.send(
        'POST',
        `/admin/systems/hpc_one/${name}/`,
        { 'content-type': 'application/json' },
        '{"reason": "maintenance"}',
      );
    assert.equal((await act('pause')).status, 200);
    const refused = await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(refused.status, 503);
    assert.ok(refused.headers.get('retry-after'));
    assert.equal((await act('resume')).status, 200);
    assert.equal((await me.submit('/jobs/hpc_one/', { command: 'true' })).status, 201);
    const [system] = (await me.get<{ hpc: string; status: string }[]>('/hpc/')).body;
    assert.equal(system?.hpc, 'hpc_one');
  });

  test('every command that the scheduler gets is counted', async () => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    assert.match(text, /bursar_scheduler_commands_total\{hpc="hpc_one",command="squeue"\} \d+/);
  });
});

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeZip } from '../files/zip/hostile-zips.ts';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { inStage, pathOf } from '../support/jobs.ts';
import { logLines } from '../support/logs.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { slurmConfig } from './config.ts';

/** A way of reaching Slurm. */
export interface ClusterAccess {
  /** Further settings of the engine. */
  engine: Record<string, unknown>;
  /** Drops what it is reached through, where that can be dropped. */
  dropConnection?(server: ServerProcess): Promise<void>;
  close(): Promise<void>;
}

const hpcTwo = {
  kind: 'tool',
  jobId: { style: 'prefixed' },
  stages: { queued: 'QUEUE', succeeded: 'COMPLETED' },
  projects: [{ name: 'proj_hpc_two_01' }],
  tools: { BASH: { command: ['bash', 'main.sh', '{word}'], entry: 'main.sh', parameters: { word: {} } } },
};

/** What users see of a real Slurm, the same however Bursar reaches it. */
export function serviceSuite(name: string, reach: (cluster: SlurmCluster) => Promise<ClusterAccess>): void {
  describe(`the service in front of a real Slurm, ${name}`, () => {
    let cluster: SlurmCluster;
    let way: ClusterAccess;
    let server: ServerProcess;
    let me: Caller;
    before(async () => {
      cluster = await startCluster({ nodes: 2 });
      way = await reach(cluster);
      const { systems } = slurmConfig(cluster, { workspaceFolder: join(cluster.folder, 'work'), ...way.engine });
      const { projects: _, ...common } = systems.hpc_one;
      server = await spawnServer({ config: { systems: { ...systems, hpc_two: { ...common, ...hpcTwo } } } });
      me = callerOf(server.url, server.userToken);
    });
    after(async () => {
      await server.dispose();
      await way.close();
      await cluster.stop();
    });

    const homeOf = (job: Job) => join(cluster.folder, 'work', job.job_id);
    const outputOf = (job: Job) => readFileSync(join(homeOf(job), 'stdout'), 'utf8');
    const timeLeft = async () => (await me.quota('hpc_one', 'proj_hpc_one_01')).time_left;
    const endOf = async ({ job_id }: Job) =>
      (await logLines(server)).find(
        ({ msg, jobId, state }) => msg === 'job state changed' && jobId === job_id && state === 'ended',
      );

    test('a script of the zip runs on nodes and cores as asked, and is charged for what Slurm gave it', async () => {
      const zip = await makeZip({ 'run.sh': '#!/bin/sh\n#SBATCH --nodes=1\necho "$SLURM_NNODES $1"\nsleep 1\n' });
      const payload = {
        command: 'sbatch run.sh hello',
        node_number: '2',
        core_number: '3',
        runtime: '0.1',
        title: 'T',
      };
      const before = await timeLeft();
      const { status, body } = await me.submit('/jobs/hpc_one/', payload, zip);
      assert.equal(status, 201);
      const job = await me.finished(body);
      assert.equal(job.stage, 'SUCCESSFUL');
      assert.equal(outputOf(job), '2 hello\n');
      const used = before - (await timeLeft());
      assert.ok(used > 0 && used % 6 === 0, `${used} seconds are not those of six cores`);
    });

    test('a tool runs from its file of the zip, and not without it', async () => {
      const zip = await makeZip({ 'main.sh': 'echo "$1 $(cat data/in)"\n', 'data/in': 'there' });
      const job = await me.finished((await me.submit('/jobs/hpc_two/', { tool: 'BASH', word: "it's" }, zip)).body);
      assert.equal(job.stage, 'COMPLETED');
      assert.equal(outputOf(job), "it's there\n");
      const without = await me.submit('/jobs/hpc_two/', { tool: 'BASH', word: 'x' }, await makeZip({ other: '' }));
      assert.equal((await me.finished(without.body)).stage, 'FAILED');
      await until('nothing of it is left', () => !existsSync(homeOf(without.body)) || undefined);
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

    test('a running job is cancelled by DELETE, and its files are deleted by another', async () => {
      const { body } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600' });
      await inStage(me, body, 'RUNNING');
      const { status } = await me.send('DELETE', pathOf(body));
      assert.ok(status === 200 || status === 202);
      const job = await me.finished(body);
      assert.deepEqual([job.stage, job.failed], ['CANCELED', false]);
      assert.match(String((await endOf(job))?.reason), /^cancelled by its owner/);
      assert.equal((await me.send('DELETE', pathOf(body))).status, 200);
      assert.equal(existsSync(homeOf(job)), false);
    });

    test('a job that was accepted a moment ago is cancelled by DELETE, and pays for no more than it used', async () => {
      const before = await timeLeft();
      const { body } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600', core_number: '3' });
      const { status } = await me.send('DELETE', pathOf(body));
      assert.ok(status === 200 || status === 202);
      const job = await me.finished(body);
      assert.deepEqual([job.stage, job.failed], ['CANCELED', false]);
      const used = before - (await timeLeft());
      assert.ok(used < 600 && used % 3 === 0, `${used} seconds were charged`);
    });

    test('what an administrator of the cluster cancels has failed, and pays for what it used', async () => {
      const whole = { node_number: '2', core_number: '16', runtime: '0.1' };
      const before = await timeLeft();
      const running = (await me.submit('/jobs/hpc_one/', { command: 'sleep 600', ...whole })).body;
      await inStage(me, running, 'RUNNING');
      const pending = (await me.submit('/jobs/hpc_one/', { command: 'true', ...whole })).body;
      const names = [running, pending].map(({ job_id }) => job_id).join(',');
      const refs = await until('both are in the queue', () => {
        const found = cluster.run('squeue', '-h', '-o', '%i', '-n', names).trim().split('\n');
        return found.length === 2 ? found : undefined;
      });
      cluster.run('scancel', ...refs);
      for (const job of [running, pending]) {
        const { stage, failed } = await me.finished(job);
        assert.deepEqual([stage, failed], ['FAILED', true]);
        const end = await endOf(job);
        assert.equal(end?.outcome, 'cancelled_by_site');
        assert.match(String(end?.reason), /^cancelled by an administrator of the cluster \(CANCELLED/);
      }
      const used = before - (await timeLeft());
      assert.ok(used >= 32 && used % 32 === 0, `${used} seconds are not those of one job on 32 cores`);
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
      for (const { body } of answers) assert.equal((await me.finished(body)).stage, 'SUCCESSFUL');
    });

    test('many jobs while the connection drops again and again: none is lost, none runs twice', async () => {
      const zip = await makeZip({ 'run.sh': '#!/bin/sh\necho ran >> runs\nsleep 2\n' });
      const jobs: Job[] = [];
      for (let n = 0; n < 8; n++) {
        const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
        assert.equal(status, 201);
        jobs.push(body);
        await way.dropConnection?.(server);
      }
      for (const job of jobs) {
        assert.equal((await me.finished(job)).stage, 'SUCCESSFUL');
        assert.equal(readFileSync(join(homeOf(job), 'files', 'runs'), 'utf8'), 'ran\n');
      }
    });

    test('a system is shown with its health, and can be paused and resumed by administrators', async () => {
      const admin = callerOf(server.url, server.adminToken);
      const json = { 'content-type': 'application/json' };
      const act = (name: string) =>
        admin.send('POST', `/admin/systems/hpc_one/${name}/`, json, '{"reason": "maintenance"}');
      assert.equal((await act('pause')).status, 200);
      const refused = await me.submit('/jobs/hpc_one/', { command: 'true' });
      assert.equal(refused.status, 503);
      assert.ok(refused.headers.get('retry-after'));
      assert.equal((await act('resume')).status, 200);
      assert.equal((await me.submit('/jobs/hpc_one/', { command: 'true' })).status, 201);
      const [system] = (await me.get<{ hpc: string; status: string }[]>('/hpc/')).body;
      assert.equal(system?.hpc, 'hpc_one');
    });

    test('every command that the scheduler gets is counted, and nothing else', async () => {
      const text = await (await fetch(`${server.url}/metrics`)).text();
      assert.match(text, /bursar_scheduler_commands_total\{hpc="hpc_one",command="squeue"\} \d+/);
      const counted = [...text.matchAll(/bursar_scheduler_commands_total\{hpc="hpc_one",command="(.+?)"\}/g)];
      const names = new Set(counted.map(([, command]) => command));
      assert.deepEqual([...names.difference(new Set(['sacct', 'sbatch', 'scancel', 'scontrol', 'squeue']))], []);
    });
  });
}

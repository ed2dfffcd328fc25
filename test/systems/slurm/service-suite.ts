import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeZip } from '../../files/zip/hostile-zips.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { cancelJob, jobPath, unrunnableScript, waitForStage } from '../../support/jobs.ts';
import { readLogLines } from '../../support/logs.ts';
import { readMetric } from '../../support/metrics.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SharedCluster, sharedCluster } from '../../support/shared-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { startTraceCollector, type TraceCollector } from '../../support/trace-collector.ts';
import { until } from '../../support/until.ts';

/** How Bursar reaches the cluster. */
export interface ClusterAccess {
  /** Further engine settings. */
  engine: Record<string, unknown>;
  /** Drops the connection to the cluster; absent if there is none. */
  dropConnection?(server: ServerProcess): Promise<void>;
  close(): Promise<void>;
}

const hpcTwo = {
  kind: 'tool',
  scheduler: true,
  jobIdPrefix: 'BURSAR-JOB',
  stages: { queued: 'QUEUE', succeeded: 'COMPLETED' },
  projects: [{ name: 'proj_hpc_two_01' }],
  tools: { BASH: { command: ['bash', 'main.sh', '{word}'], entry: 'main.sh', parameters: { word: {} } } },
};

/** Tests the HTTP service with jobs on a real Slurm cluster; the behaviour is the same for every kind of access. */
export function serviceSuite(name: string, connect: () => Promise<ClusterAccess>): void {
  describe(`jobs on Slurm, ${name}`, { concurrency: 1 }, () => {
    let cluster: SharedCluster;
    let access: ClusterAccess;
    let collector: TraceCollector;
    let server: ServerProcess;
    let me: Caller;
    before(async () => {
      cluster = await sharedCluster();
      access = await connect();
      const engine = { workspaceFolder: join(cluster.folder, 'work'), ...access.engine };
      const { systems } = slurmConfig(cluster, engine, { isolation: 'bubblewrap' });
      const { projects: _, ...common } = systems.hpc_one;
      collector = await startTraceCollector();
      const tracing = { endpoint: `${collector.url}/v1/traces` };
      server = await spawnServer({ config: { systems: { ...systems, hpc_two: { ...common, ...hpcTwo } }, tracing } });
      me = createCaller(server.url, server.userToken);
    });
    after(async () => {
      await server.dispose();
      await access.close();
      await cluster.stop();
      await collector.close();
    });

    const workspaceOf = (job: Job) => join(cluster.folder, 'work', job.job_id);
    const outputOf = (job: Job) => readFileSync(join(workspaceOf(job), 'stdout'), 'utf8');
    const timeLeft = async () => (await me.quota('hpc_one', 'proj_hpc_one_01')).time_left;
    /** Waits for it: the job can be read as ended a moment before the server logs it. */
    const endOf = ({ job_id }: Job) =>
      until(`the end of ${job_id} is logged`, async () =>
        (await readLogLines(server)).find(
          ({ msg, jobId, state }) => msg === 'job state changed' && jobId === job_id && state === 'ended',
        ),
      );

    test('commands of Slurm are measured, and belong to the trace of the submission that they serve', async () => {
      const traceId = randomBytes(16).toString('hex');
      const headers = {
        ...{ 'content-disposition': 'attachment; filename=job.zip', payload: JSON.stringify({ command: 'true' }) },
        traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-01`,
      };
      const { status, body } = await me.send('POST', '/jobs/hpc_one/', headers);
      assert.equal(status, 201);
      await me.waitUntilFinished(body as Job);
      const submit = await collector.waitForSpan(traceId, 'submit');
      const sbatch = await collector.waitForSpan(traceId, 'sbatch');
      assert.equal(sbatch.parentSpanId, submit.spanId);
      assert.ok(BigInt(sbatch.endTimeUnixNano) > BigInt(sbatch.startTimeUnixNano));
      // On a busy machine the release of the job waits for a squeue, which belongs to the submission too.
      const dispatch = await collector.waitForSpan(traceId, 'dispatch');
      for (const { name, parentSpanId } of collector.spans())
        if (name === 'squeue')
          assert.ok([dispatch.spanId, submit.spanId].includes(parentSpanId ?? ''), 'other polls belong to no trace');
      for (const command of ['sbatch', 'squeue']) {
        const labels = `{hpc="hpc_one",command="${command}"}`;
        const count = await readMetric(server.url, `bursar_scheduler_command_duration_seconds_count${labels}`);
        assert.ok(count > 0, command);
      }
    });

    test('runs a script from the zip on the requested nodes and cores, and charges for the allocation', async () => {
      const zip = await makeZip({ 'run.sh': '#!/bin/sh\n#SBATCH --nodes=2\necho "$SLURM_NNODES $1"\nsleep 1\n' });
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
      const job = await me.waitUntilFinished(body);
      assert.equal(job.stage, 'SUCCESSFUL');
      assert.equal(outputOf(job), '2 hello\n');
      const used = before - (await timeLeft());
      assert.ok(used > 0 && used % 6 === 0, `${used} seconds are not those of six cores`);
    });

    test('ends a job whose files take more space than the quota has left, and charges for its time', async () => {
      const before = await timeLeft();
      const { body } = await me.submit('/jobs/hpc_one/', { command: 'truncate -s 20G big; sleep 600' });
      const job = await me.waitUntilFinished(body);
      assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
      const end = await endOf(job);
      assert.equal(end.outcome, 'output_exceeded');
      assert.match(String(end.reason), /^its files took more space than the quota has left/);
      assert.ok((await timeLeft()) < before);
      assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
    });

    test('runs a tool from its entry file in the zip, and rejects the job if the file is missing', async () => {
      const zip = await makeZip({ 'main.sh': 'echo "$1 $(cat data/in)"\n', 'data/in': 'there' });
      const job = await me.waitUntilFinished(
        (await me.submit('/jobs/hpc_two/', { tool: 'BASH', word: "it's" }, zip)).body,
      );
      assert.equal(job.stage, 'COMPLETED');
      assert.equal(outputOf(job), "it's there\n");
      const withoutEntry = await me.submit('/jobs/hpc_two/', { tool: 'BASH', word: 'x' }, await makeZip({ other: '' }));
      assert.deepEqual([withoutEntry.status, /main\.sh/.test(withoutEntry.text)], [400, true], withoutEntry.text);
    });

    test('distinguishes a failing job, a script that cannot run, a missing script and a rejected option', async () => {
      const failing = (await me.submit('/jobs/hpc_one/', { command: 'exit 3' })).body;
      assert.equal((await me.waitUntilFinished(failing)).stage, 'FAILED');
      const { command, zip: unrunnable } = unrunnableScript;
      const refused = (await me.submit('/jobs/hpc_one/', { command }, unrunnable)).body;
      assert.equal((await me.waitUntilFinished(refused)).failed, true);
      await until('the workspace is removed', () => !existsSync(workspaceOf(refused)) || undefined);
      assert.equal((await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' })).status, 400);
      for (const option of ['--uid=0', '--mem=50', '--nodes=77']) {
        const zip = await makeZip({ 'run.sh': `#!/bin/sh\n#SBATCH ${option}\ntrue\n` });
        const rejected = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
        assert.deepEqual([rejected.status, rejected.text.includes(option.split('=', 1)[0] ?? '')], [400, true], option);
      }
    });

    test('cancels a running job, and deletes its files afterwards', async () => {
      const { body } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600' });
      await waitForStage(me, body, 'RUNNING');
      const job = await cancelJob(me, body);
      assert.deepEqual([job.stage, job.failed], ['CANCELED', false]);
      assert.match(String((await endOf(job)).reason), /^cancelled by its owner/);
      assert.equal((await me.send('DELETE', jobPath(body))).status, 200);
      await until('its files are removed', () => !existsSync(workspaceOf(job)) || undefined);
    });

    test('cancels a job right after its submission, and charges only the time used', async () => {
      const before = await timeLeft();
      const { body } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600', core_number: '3' });
      const job = await cancelJob(me, body);
      assert.deepEqual([job.stage, job.failed], ['CANCELED', false]);
      const used = before - (await timeLeft());
      assert.ok(used < 600 && used % 3 === 0, `${used} seconds were charged`);
    });

    test('fails a job that a cluster administrator cancels, and charges the time used', async () => {
      const whole = { node_number: '2', core_number: '16', runtime: '0.1' };
      const before = await timeLeft();
      const running = (await me.submit('/jobs/hpc_one/', { command: 'echo started; sleep 600', ...whole })).body;
      // Slurm shows a job as running before it starts it. A job that is cancelled in between could not be started.
      await until('the command runs', async () =>
        (await me.send('GET', `${jobPath(running)}log/`)).text.includes('started') ? true : undefined,
      );
      const pending = (await me.submit('/jobs/hpc_one/', { command: 'true', ...whole })).body;
      // In this order, because the pending job would start on the nodes of the other one.
      for (const { job_id } of [pending, running]) {
        const findRef = () => cluster.run('squeue', '-h', '-o', '%i', '-n', job_id).trim();
        cluster.run('scancel', await until(`${job_id} is in the queue`, () => findRef() || undefined));
      }
      for (const job of [running, pending]) {
        const { stage, failed } = await me.waitUntilFinished(job);
        assert.deepEqual([stage, failed], ['FAILED', true]);
        const end = await endOf(job);
        assert.equal(end.outcome, 'cancelled_by_site');
        assert.match(String(end.reason), /^cancelled by an administrator of the cluster \(CANCELLED/);
      }
      const used = before - (await timeLeft());
      assert.ok(used >= 32 && used % 32 === 0, `${used} seconds are not those of one job on 32 cores`);
    });

    test('runs every job exactly once while the connection drops repeatedly', async () => {
      const zip = await makeZip({ 'run.sh': '#!/bin/sh\necho ran >> runs\nsleep 2\n' });
      const jobs: Job[] = [];
      for (let n = 0; n < 8; n++) {
        const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
        assert.equal(status, 201);
        jobs.push(body);
        await access.dropConnection?.(server);
      }
      for (const job of jobs) {
        assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
        assert.equal(readFileSync(join(workspaceOf(job), 'files', 'runs'), 'utf8'), 'ran\n');
      }
    });

    test('shows the system status, and lets administrators pause and resume the system', async () => {
      const admin = createCaller(server.url, server.adminToken);
      const json = { 'content-type': 'application/json' };
      const postAction = (name: string) =>
        admin.send('POST', `/admin/systems/hpc_one/${name}/`, json, '{"reason": "maintenance"}');
      assert.equal((await postAction('pause')).status, 200);
      const paused = await me.submit('/jobs/hpc_one/', { command: 'true' });
      assert.equal(paused.status, 503);
      assert.ok(paused.headers.get('retry-after'));
      assert.equal((await postAction('resume')).status, 200);
      assert.equal((await me.submit('/jobs/hpc_one/', { command: 'true' })).status, 201);
      const systems = (await me.get<{ hpc: string; isolation: string }[]>('/hpc/')).body;
      // A job that can use Slurm can leave its isolation.
      const isolations = systems.map(({ hpc, isolation }) => [hpc, isolation]);
      assert.deepEqual(isolations, [
        ['hpc_one', 'bubblewrap'],
        ['hpc_two', 'none'],
      ]);
    });

    test('counts every scheduler command in the metrics, and no other command', async () => {
      const text = await (await fetch(`${server.url}/metrics`)).text();
      assert.match(text, /bursar_scheduler_commands_total\{hpc="hpc_one",command="squeue"\} \d+/);
      const counted = [...text.matchAll(/bursar_scheduler_commands_total\{hpc="hpc_one",command="(.+?)"\}/g)];
      const names = new Set(counted.map(([, command]) => command));
      const measured = text.matchAll(
        /bursar_scheduler_command_duration_seconds_count\{hpc="hpc_one",command="(.+?)"\} [1-9]/g,
      );
      assert.deepEqual(new Set([...measured].map(([, command]) => command)), names);
      assert.deepEqual([...names.difference(new Set(['sacct', 'sbatch', 'scancel', 'scontrol', 'squeue']))], []);
    });
  });
}

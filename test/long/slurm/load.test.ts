import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { runFile } from '../../support/command-line.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';

const smallJobCount = 10;
const largeJobCount = 500;
const readerCount = 50;

const pollIntervalSeconds = 1;
const countSeconds = 20;

/** Occupies the whole cluster for longer than the test: the first job runs, all others wait. */
const payload = { command: 'sleep 3000', node_number: 2, core_number: 16, runtime: 1 };

/** Uses a constant poll interval: the default one grows while nothing changes, so that two counts could not be compared. */
function config(cluster: SlurmCluster) {
  const { hpc_one } = slurmConfig(cluster).systems;
  const projects = [{ name: 'proj_hpc_one_01', grant: { timeSeconds: 1_000_000_000 } }];
  // All readers are the same user, whom the default rate limit would stop.
  const limits = { userRequests: 2_000_000 };
  return {
    limits,
    systems: { hpc_one: { ...hpc_one, projects, pollIntervalSeconds, maxPollIntervalSeconds: pollIntervalSeconds } },
  };
}

describe('scheduler commands', () => {
  let cluster: SlurmCluster;
  let server: ServerProcess;
  let me: Caller;

  before(async () => {
    cluster = await startCluster({ nodes: 2 });
    server = await spawnServer({ config: config(cluster) });
    me = createCaller(server.url, server.userToken);
  });
  after(async () => {
    await server.dispose();
    await cluster.stop();
  });

  async function submit(count: number): Promise<void> {
    const submitOne = async () => assert.equal((await me.submit('/jobs/hpc_one/', payload)).status, 201);
    for (let left = count; left > 0; left -= 10)
      await Promise.all(Array.from({ length: Math.min(10, left) }, submitOne));
  }

  /** Waits until all jobs are in Slurm and released, so that only polling is left to do. */
  async function waitUntilSettled(count: number): Promise<void> {
    const squeue = () =>
      runFile('squeue', ['-h', '-O', 'State:|,Reason:|'], { env: { ...process.env, ...cluster.env } });
    const haveArrived = async () => {
      const { stdout } = await squeue();
      const lines = stdout.trim().split('\n');
      const isSettled = lines.length === count && !stdout.includes('JobHeldUser') && stdout.includes('RUNNING');
      return isSettled || void (await sleep(1000));
    };
    await until(`${count} jobs in the queue`, haveArrived, 400);
    await sleep(3000);
  }

  async function readCommandCounts(): Promise<Record<string, number>> {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const lines = text.matchAll(/^bursar_scheduler_commands_total\{hpc="hpc_one",command="(\w+)"\} (\d+)/gm);
    return Object.fromEntries([...lines].map(([, name, count]) => [name, Number(count)]));
  }

  /** Counts the runs of each command during the work, and the polls that fit into the time that it took. */
  async function countDuring(work: () => Promise<void>): Promise<{ counts: Record<string, number>; polls: number }> {
    const startedAt = performance.now();
    const before = await readCommandCounts();
    await work();
    const after = await readCommandCounts();
    const polls = (performance.now() - startedAt) / (pollIntervalSeconds * 1000);
    const counts = Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)] as const);
    return { counts: Object.fromEntries(counts.filter(([, count]) => count > 0)), polls };
  }

  let reads = 0;
  async function readUntil(stop: AbortSignal, job: Job): Promise<void> {
    const paths = ['/quotas/', '/hpc/', `/jobs/hpc_one/${job.project_name}/${job.job_id}/`];
    for (let n = 0; !stop.aborted; n++) {
      const { status } = await me.get(paths[n % paths.length] ?? '');
      assert.equal(status, 200);
      reads += 1;
      // Readers share the CPU cores with the scheduler.
      await sleep(250);
    }
  }

  test('are one squeue per poll, independent of the number of jobs and readers', async () => {
    await submit(smallJobCount);
    await waitUntilSettled(smallJobCount);
    const withFew = await countDuring(() => sleep(countSeconds * 1000));
    const dispatching = await countDuring(async () => {
      await submit(largeJobCount - smallJobCount);
      await waitUntilSettled(largeJobCount);
    });
    assert.equal(dispatching.counts.sbatch, largeJobCount - smallJobCount);
    // The jobs are not searched in the queue one by one. A poll may see jobs that are about to be released, and confirm them.
    assert.ok(Number(dispatching.counts.squeue) <= 2 * dispatching.polls + 3, JSON.stringify(dispatching));
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    assert.equal(jobs.length, largeJobCount);
    const [job] = jobs;
    assert.ok(job);
    const stop = new AbortController();
    const reading = Array.from({ length: readerCount }, () => readUntil(stop.signal, job));
    const withMany = await countDuring(async () => {
      await sleep(countSeconds * 1000);
      await until('a thousand reads', () => reads > 1000 || undefined);
    });
    stop.abort();
    await Promise.all(reading);
    // A busy machine may poll less often in either count, but never runs more than one command per poll. The first poll of a
    // count may be late, or make up for a late one.
    for (const { counts, polls } of [withFew, withMany]) {
      assert.deepEqual(Object.keys(counts), ['squeue']);
      assert.ok(Number(counts.squeue) <= polls + 3, JSON.stringify({ withFew, withMany }));
    }
  });
});

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { runFile } from '../support/command-line.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { slurmConfig } from './config.ts';

const few = 10;
const many = 2000;
const readers = 50;

const watchSeconds = 1;

/** Each fills the whole cluster for longer than the test: the first runs, all others wait. */
const payload = { command: 'sleep 3000', node_number: 2, core_number: 16, runtime: 1 };

/**
 * One interval all the time: in the shipped configuration it grows while nothing changes, so that two minutes could
 * not be compared.
 */
function config(cluster: SlurmCluster) {
  const { hpc_one } = slurmConfig(cluster).systems;
  const projects = [{ name: 'proj_hpc_one_01', grant: { timeSeconds: 1_000_000_000 } }];
  // All readers are one user here, who would be told to slow down.
  const limits = { userRequests: 1_000_000, tokenRequests: 1_000_000 };
  return { limits, systems: { hpc_one: { ...hpc_one, projects, watchSeconds, idleWatchSeconds: watchSeconds } } };
}

describe('the commands that a scheduler gets in a minute', () => {
  let cluster: SlurmCluster;
  let server: ServerProcess;
  let me: Caller;

  before(async () => {
    cluster = await startCluster({ nodes: 2 });
    server = await spawnServer({ config: config(cluster) });
    me = callerOf(server.url, server.userToken);
  });
  after(async () => {
    await server.dispose();
    await cluster.stop();
  });

  async function submit(count: number): Promise<void> {
    const one = async () => assert.equal((await me.submit('/jobs/hpc_one/', payload)).status, 201);
    for (let left = count; left > 0; left -= 10) await Promise.all(Array.from({ length: Math.min(10, left) }, one));
  }

  /** All jobs are in Slurm and released, and there is nothing to do but to follow them. */
  async function settled(count: number): Promise<void> {
    const squeue = () =>
      runFile('squeue', ['-h', '-O', 'State:|,Reason:|'], { env: { ...process.env, ...cluster.env } });
    const arrived = async () => {
      const { stdout } = await squeue();
      const lines = stdout.trim().split('\n');
      const isSettled = lines.length === count && !stdout.includes('JobHeldUser') && stdout.includes('RUNNING');
      return isSettled || void (await sleep(1000));
    };
    await until(`${count} jobs in the queue`, arrived, 400);
    await sleep(3000);
  }

  async function commands(): Promise<Record<string, number>> {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    const lines = text.matchAll(/^bursar_scheduler_commands_total\{hpc="hpc_one",command="(\w+)"\} (\d+)/gm);
    return Object.fromEntries([...lines].map(([, name, count]) => [name, Number(count)]));
  }

  /** How often each command is run in a minute; and how many rounds there is time for in it, as it really passed. */
  async function ofOneMinute(): Promise<{ counts: Record<string, number>; rounds: number }> {
    const begunAt = performance.now();
    const before = await commands();
    await sleep(60_000);
    const now = await commands();
    const rounds = (performance.now() - begunAt) / (watchSeconds * 1000);
    const counts = Object.entries(now).map(([name, count]) => [name, count - (before[name] ?? 0)] as const);
    return { counts: Object.fromEntries(counts.filter(([, count]) => count > 0)), rounds };
  }

  async function readUntil(over: AbortSignal, job: Job): Promise<number> {
    const paths = ['/quotas/', '/hpc/', `/jobs/hpc_one/${job.project_name}/${job.job_id}/`];
    for (let n = 0; ; n++) {
      if (over.aborted) return n;
      const { status } = await me.get(paths[n % paths.length] ?? '');
      assert.equal(status, 200);
      // They share the machine's cores with the scheduler.
      await sleep(50);
    }
  }

  test('grow neither with the jobs in the queue nor with the readers: one squeue a round', async () => {
    await submit(few);
    await settled(few);
    const withFew = await ofOneMinute();
    await submit(many - few);
    await settled(many);
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    assert.equal(jobs.length, many);
    const [job] = jobs;
    assert.ok(job);
    const over = new AbortController();
    const reading = Array.from({ length: readers }, () => readUntil(over.signal, job));
    const withMany = await ofOneMinute();
    over.abort();
    const reads = (await Promise.all(reading)).reduce((sum, count) => sum + count, 0);
    assert.ok(reads > 1000, `only ${reads} reads`);
    // On a busy machine there may be fewer rounds, in either minute. More than one command a round there never is; the
    // first of a minute may be late, or make up for one that was.
    for (const { counts, rounds } of [withFew, withMany]) {
      assert.deepEqual(Object.keys(counts), ['squeue']);
      assert.ok(Number(counts.squeue) <= rounds + 3, JSON.stringify({ withFew, withMany }));
    }
  });
});

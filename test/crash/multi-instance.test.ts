import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { maxInMemoryBytes } from '../../src/files/spool/upload-buffer.ts';
import { slurmConfig } from '../slurm/config.ts';
import { callerOf, type Job } from '../support/api.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { zipOf } from '../support/zip.ts';

const instances = 3;
const rounds = 14;
const clients = 3;
const leaseSeconds = 1;

/** Who wrote a change of a job's state, and who had its system at that very moment. */
const witness = `
  create table witness (number bigint generated always as identity, writer text, holder text, term bigint);
  create function bear_witness() returns trigger language plpgsql as $$
    begin
      insert into witness (writer, holder, term)
        select current_setting('application_name'), holder, term from leases where name = 'system ' || new.hpc;
      return new;
    end $$;
  create trigger bear_witness after update of state on jobs for each row
    when (old.state is distinct from new.state) execute function bear_witness()`;

describe('three Bursars on one PostgreSQL and one Slurm, killed and stopped at random', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-several-'));
  const data = join(folder, 'data');
  const marks = join(folder, 'marks');
  const accepted: string[] = [];
  const unclean: string[] = [];
  const servers: ServerProcess[] = [];
  let postgres: TestPostgres;
  let cluster: SlurmCluster;
  let jobs: Job[] = [];

  const start = async () => {
    const config = { ...slurmConfig(cluster), database: { leaseSeconds } };
    return await spawnServer({ data, config, env: { BURSAR_DATABASE_URL: postgres.url('bursar') } });
  };

  /** Submits to whichever answers; an answer that is neither a job nor a request to come again is noted. */
  async function submitUntil(
    over: AbortSignal,
    token: string,
    name: string,
    zips: readonly Uint8Array[],
  ): Promise<void> {
    for (let n = 0; !over.aborted; n++) {
      const title = `${name}-${n}`;
      const server = servers[(n + name.length) % servers.length];
      const command = n % 2 === 0 ? `sbatch run.sh ${marks}/${title}` : `echo ran >> ${marks}/${title}`;
      const me = callerOf(server?.url ?? '', token);
      const submission = me.submit(
        '/jobs/hpc_one/',
        { command, title, runtime: 0.1 },
        n % 2 === 0 ? zips[(n / 2) % zips.length] : undefined,
      );
      const answer = await submission.catch(() => null);
      if (answer?.status === 201) accepted.push(title);
      else if (answer !== null && !(answer.status === 503 && answer.headers.has('retry-after'))) {
        unclean.push(answer.text);
      }
      await sleep(500);
    }
  }

  /** One of them is killed and replaced, or stopped for longer than a lease. In the middle the database is restarted. */
  async function disturb(round: number): Promise<void> {
    if (round === Math.floor(rounds / 2)) {
      await postgres.stop('SIGINT');
      await sleep(1000);
      await postgres.start();
      return;
    }
    const index = Math.floor(Math.random() * instances);
    const server = servers[index];
    assert.ok(server);
    if (round % 2 === 0) {
      await server.kill();
      servers[index] = await start();
    } else {
      server.process.kill('SIGSTOP');
      await sleep(leaseSeconds * 1000 * 3);
      server.process.kill('SIGCONT');
    }
  }

  before(async () => {
    mkdirSync(marks);
    cluster = await startCluster({ nodes: 2 });
    postgres = await startPostgres({ durable: true });
    await postgres.database('bursar');
    const first = await start();
    servers.push(first, await start(), await start());
    await postgres.query('bursar', witness);
    const script = '#!/bin/sh\necho ran >> "$1"\n';
    // A small one is kept with its job, a larger one in the spool.
    const zips = [
      await zipOf({ 'run.sh': script }),
      await zipOf({ 'run.sh': script, 'data.bin': randomBytes(maxInMemoryBytes) }),
    ];
    const over = new AbortController();
    const submitting = Array.from({ length: clients }, (_, client) =>
      submitUntil(over.signal, first.userToken, `c${'x'.repeat(client)}`, zips),
    );
    for (let round = 0; round < rounds; round++) {
      await sleep(Math.random() * 1500);
      await disturb(round);
    }
    over.abort();
    await Promise.all(submitting);
    const me = callerOf(servers[0]?.url ?? '', first.userToken);
    const listed = (await me.get<Job[]>('/jobs/')).body;
    jobs = await Promise.all(listed.map((job) => me.finished(job)));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await cluster.stop();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  test('callers got jobs, or were asked to come again, and nothing else', () => {
    assert.deepEqual(unclean, []);
    assert.ok(accepted.length >= rounds / 2, `only ${accepted.length} jobs`);
  });

  test('no job that was answered with 201 is lost', () => {
    const titles = new Set(jobs.map((job) => job.title));
    assert.deepEqual(
      accepted.filter((title) => !titles.has(title)),
      [],
    );
  });

  test('every job ran exactly once, and came to its right end', () => {
    const runs = Object.fromEntries(
      readdirSync(marks).map((title) => [title, readFileSync(join(marks, title), 'utf8').trim().split('\n').length]),
    );
    assert.deepEqual(runs, Object.fromEntries(jobs.map((job) => [job.title, 1])));
    assert.deepEqual(
      jobs.filter((job) => job.stage !== 'SUCCESSFUL').map((job) => [job.title, job.stage]),
      [],
    );
  });

  test('only who had the system at that moment ever moved a job on, and the system changed hands', async () => {
    const rows = await postgres.query<{ writer: string; holder: string; term: number }>(
      'bursar',
      'select writer, holder, term from witness order by number',
    );
    const nameOf = (holder: string) => {
      const [, pid] = holder.split('/');
      return `bursar ${hostname()} ${pid}`.slice(0, 63);
    };
    assert.deepEqual(
      rows.filter(({ writer, holder }) => writer !== nameOf(holder)),
      [],
    );
    assert.ok(rows.length >= jobs.length * 2);
    assert.ok(new Set(rows.map(({ term }) => term)).size > 2);
  });

  test('nothing is left behind, and the books balance', async () => {
    // A zip that came in just before a kill has no job. It could be another one's fresh one, so it stays for an hour.
    const known = new Set(jobs.map((job) => `${job.job_id}.zip`));
    const zips = () => readdirSync(join(data, 'spool')).filter((name) => known.has(name));
    await until('no zip of a job is left', () => zips().length === 0 || undefined);
    assert.deepEqual(readdirSync(join(data, 'workspaces')).sort(), jobs.map((job) => job.job_id).sort());
    const [server] = servers;
    assert.ok(server);
    assert.match((await server.bursar('ledger', 'verify')).stdout, /\d/);
  });
});

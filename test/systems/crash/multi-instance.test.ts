import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { defaultTuning } from '../../../src/composition/tuning.ts';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { isLongRun } from '../../support/long-run.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SharedCluster, sharedCluster } from '../../support/shared-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';
import { countRuns } from './count-runs.ts';

const instances = 3;
const rounds = isLongRun ? 14 : 6;
const clients = 3;

/** Records, for each change of a job's state, the writer and the lease holder at that moment. */
const createStateLog = `
  create table state_log (number bigint generated always as identity, writer text, holder text, term bigint);
  create function log_state() returns trigger language plpgsql as $$
    begin
      insert into state_log (writer, holder, term)
        select current_setting('application_name'), holder, term from leases where name = 'system ' || new.hpc;
      return new;
    end $$;
  create trigger log_state after update of state on jobs for each row
    when (old.state is distinct from new.state) execute function log_state()`;

describe('three instances with one PostgreSQL and one Slurm, killed and suspended at random', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-several-'));
  const data = join(folder, 'data');
  const accepted: string[] = [];
  const unexpectedResponses: string[] = [];
  const servers: ServerProcess[] = [];
  let postgres: TestPostgres;
  let cluster: SharedCluster;
  const jobs: Job[] = [];

  const start = async () => {
    const config = slurmConfig(cluster);
    return await spawnServer({ data, config, env: { BURSAR_DATABASE_URL: postgres.url('bursar') } });
  };

  /** Submits to the instances in turn. Records every response that is neither a job nor a 503 with Retry-After. */
  async function submitUntil(
    signal: AbortSignal,
    token: string,
    name: string,
    zips: readonly Uint8Array[],
  ): Promise<void> {
    for (let n = 0; !signal.aborted; n++) {
      const title = `${name}-${n}`;
      const server = servers[(n + name.length) % servers.length];
      const command = n % 2 === 0 ? 'sbatch run.sh' : 'echo ran >> runs';
      const me = createCaller(server?.url ?? '', token);
      const submission = me.submit(
        '/jobs/hpc_one/',
        { command, title, runtime: 0.1 },
        n % 2 === 0 ? zips[(n / 2) % zips.length] : undefined,
      );
      const response = await submission.catch(() => null);
      if (response?.status === 201) accepted.push(title);
      else if (response !== null && !(response.status === 503 && response.headers.has('retry-after'))) {
        unexpectedResponses.push(response.text);
      }
      await sleep(1500);
    }
  }

  /** Kills and replaces an instance, or suspends it for longer than a lease. Once, restarts the database instead. */
  async function disturb(round: number): Promise<void> {
    if (round === Math.floor(rounds / 2)) {
      await postgres.stop('SIGINT');
      await sleep(1000);
      await postgres.start();
      return;
    }
    // In turn, so that each one that holds a lease loses it.
    const index = round % instances;
    const server = servers[index];
    assert.ok(server);
    if (round % 2 === 0) {
      await server.kill();
      servers[index] = await start();
    } else {
      server.process.kill('SIGSTOP');
      await sleep(defaultTuning.leaseMs * 3);
      server.process.kill('SIGCONT');
    }
  }

  const readStateLog = () =>
    postgres.query<{ writer: string; holder: string; term: number }>(
      'bursar',
      'select writer, holder, term from state_log order by number',
    );
  const countTerms = (rows: { term: number }[]) => new Set(rows.map(({ term }) => term)).size;

  before(async () => {
    cluster = await sharedCluster();
    postgres = await startPostgres({ durable: true });
    await postgres.database('bursar');
    const first = await start();
    servers.push(first, await start(), await start());
    await postgres.query('bursar', createStateLog);
    const script = '#!/bin/sh\necho ran >> runs\n';
    // The small zip is stored in the database, the large one in the spool.
    const zips = [
      await createZip({ 'run.sh': script }),
      await createZip({ 'run.sh': script, 'data.bin': randomBytes(maxInMemoryBytes) }),
    ];
    const stopSubmitting = new AbortController();
    const submitting = Array.from({ length: clients }, (_, client) =>
      submitUntil(stopSubmitting.signal, first.userToken, `c${'x'.repeat(client)}`, zips),
    );
    // On a busy machine a lease may end without a change of a job.
    const isEnough = async () => accepted.length >= rounds / 2 && countTerms(await readStateLog()) > 2;
    for (let round = 0; round < rounds || !(await isEnough()); round++) {
      await sleep(Math.random() * 1500);
      await disturb(round);
    }
    stopSubmitting.abort();
    await Promise.all(submitting);
    const me = createCaller(servers[0]?.url ?? '', first.userToken);
    const listed = (await me.get<Job[]>('/jobs/')).body;
    for (const job of listed) jobs.push(await me.waitUntilFinished(job));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await cluster.stop();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  test('every response was a job or a 503 with Retry-After', () => {
    assert.deepEqual(unexpectedResponses, []);
    assert.ok(accepted.length >= rounds / 2, `only ${accepted.length} jobs`);
  });

  test('lost no job that was accepted with 201', () => {
    const titles = new Set(jobs.map((job) => job.title));
    assert.deepEqual(
      accepted.filter((title) => !titles.has(title)),
      [],
    );
  });

  test('ran every job exactly once, and all succeeded', () => {
    assert.deepEqual(countRuns(data), Object.fromEntries(jobs.map((job) => [job.job_id, 1])));
    assert.deepEqual(
      jobs.filter((job) => job.stage !== 'SUCCESSFUL').map((job) => [job.title, job.stage]),
      [],
    );
  });

  test('only the current lease holder changed job states, and the lease changed hands', async () => {
    const rows = await readStateLog();
    const applicationName = (holder: string) => {
      const [, pid] = holder.split('/');
      return `bursar ${hostname()} ${pid}`.slice(0, 63);
    };
    assert.deepEqual(
      rows.filter(({ writer, holder }) => writer !== applicationName(holder)),
      [],
    );
    assert.ok(rows.length >= jobs.length * 2);
    assert.ok(countTerms(rows) > 2);
  });

  test('left no zip and no extra workspace, and a ledger that balances', async () => {
    // A zip that was uploaded just before a kill has no job. It could be another instance's new upload, so it stays for an hour.
    const jobZips = new Set(jobs.map((job) => `${job.job_id}.zip`));
    const zips = () => readdirSync(join(data, 'spool')).filter((name) => jobZips.has(name));
    await until('no zip of a job is left', () => zips().length === 0 || undefined);
    assert.deepEqual(readdirSync(join(data, 'workspaces')).sort(), jobs.map((job) => job.job_id).sort());
    const [server] = servers;
    assert.ok(server);
    assert.match((await server.bursar('ledger', 'verify')).stdout, /\d/);
  });
});

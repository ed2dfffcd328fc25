import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
import { readMetric } from '../../support/metrics.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type PostgresProxy, startProxy } from '../../support/postgres-proxy.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

const repeats = 10;

describe('round trips to PostgreSQL', () => {
  let postgres: TestPostgres;
  let proxy: PostgresProxy;
  let server: ServerProcess;
  let me: Caller;
  let job: Job;

  before(async () => {
    postgres = await startPostgres();
    proxy = await startProxy(postgres.port);
    const url = (await postgres.database('bursar')).replace(/:\d+\//, `:${proxy.port}/`);
    // An instance with role `api` only, so that background workers add no round trips.
    const first = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
    await first.stop();
    server = await spawnServer({ data: first.data, role: 'api', env: { BURSAR_DATABASE_URL: url } });
    me = createCaller(server.url, first.userToken);
    // A submission notifies the other instances a moment later.
    const topics = new Set<string | undefined>();
    const listener = new pg.Client({ connectionString: postgres.url('bursar') });
    listener.on('notification', ({ payload }) => topics.add(payload?.split(' ')[1]));
    await listener.connect();
    await listener.query('listen bursar');
    job = (await submit()).body;
    await until('the submission has notified', () => (topics.has('user') && topics.has('system')) || undefined);
    await listener.end();
  });
  after(async () => {
    await server.dispose();
    await proxy.close();
    await postgres.close();
  });

  const submit = async () => {
    const response = await me.submit(
      '/jobs/hpc_one/',
      { command: 'true', runtime: 0.01 },
      await createZip({ data: 'x' }),
    );
    assert.equal(response.status, 201, response.text);
    return response;
  };

  /** Round trips for `repeats` calls, after one that is not counted. */
  async function countRoundTrips(call: () => Promise<unknown>): Promise<number> {
    await call();
    const before = proxy.roundTrips();
    for (let n = 0; n < repeats; n++) await call();
    return proxy.roundTrips() - before;
  }

  // The token, and for lists the project and the version of the jobs. A 304 needs no data.
  const reads: [description: string, path: () => string, roundTrips: number, unchanged: number][] = [
    ['one job', () => jobPath(job), 2, 2],
    ['all jobs', () => '/jobs/', 3, 2],
    ['a page of the jobs in a project', () => '/jobs/hpc_one/proj_hpc_one_01/?limit=1', 4, 3],
    ['the jobs since a time', () => '/jobs/?since=2020-01-01T00:00:00Z', 3, 2],
    ['all quotas', () => '/quotas/', 2, 2],
    ['one quota', () => '/quotas/hpc_one/proj_hpc_one_01/', 2, 2],
  ];
  for (const [description, path, roundTrips, roundTripsUnchanged] of reads) {
    test(`reading ${description} takes ${roundTrips}, and ${roundTripsUnchanged} for a 304`, async () => {
      const { headers } = await me.get(path());
      const conditional = { 'if-none-match': headers.get('etag') ?? '' };
      const read = async () => assert.equal((await me.get(path())).status, 200);
      assert.equal(await countRoundTrips(read), roundTrips * repeats);
      const unchanged = async () => assert.equal((await me.send('GET', path(), conditional)).status, 304);
      assert.equal(await countRoundTrips(unchanged), roundTripsUnchanged * repeats);
    });
  }

  test('reading all jobs after one has changed takes one for the token, one for the version and one for the data', async () => {
    const change = `
      with raised as (update users set jobs_version = jobs_version + 1 where id = $1 returning id)
      update jobs set public_json = replace(public_json, '"title":"', '"title":"x')
      from raised where owner = raised.id and job_id = $2`;
    let title = job.title;
    const changeAndRead = async () => {
      title = `x${title}`;
      // Does not go through the counting proxy, like a change by another instance.
      await postgres.query('bursar', change, [job.owner, job.job_id]);
      const { body } = await me.get<Job[]>('/jobs/');
      assert.equal(body.find(({ id }) => id === job.id)?.title, title);
    };
    assert.equal(await countRoundTrips(changeAndRead), 3 * repeats);
  });

  test('a submission takes at most eleven, seven of them in its transaction', async () => {
    // Token, eligibility; begin, five statements, commit; and one or two notifications.
    assert.ok((await countRoundTrips(submit)) <= 11 * repeats);
  });

  test('the metrics show the connections of the pool', async () => {
    const read = (name: string) => readMetric(server.url, name);
    await Promise.all(Array.from({ length: 4 }, () => me.get('/quotas/')));
    // The pool may open and close connections between these reads.
    await until('the metrics equal the connections of PostgreSQL', async () => {
      const idle = await read('bursar_database_connections{state="idle"}');
      const busy = await read('bursar_database_connections{state="busy"}');
      const [row] = await postgres.query<{ count: string }>(
        'bursar',
        "select count(*) from pg_stat_activity where application_name like 'bursar %' and query <> 'listen bursar'",
      );
      return (idle > 0 && idle + busy === Number(row?.count)) || undefined;
    });
    assert.equal(await read('bursar_database_waiting'), 0);
  });

  test('a revoked token is rejected by the next request', async () => {
    const token = await server.token('4711');
    const other = createCaller(server.url, token);
    assert.equal((await other.get('/jobs/')).status, 200);
    const { stdout } = await server.bursar('token', 'list', '--user', '4711', '--json');
    const [{ id }] = JSON.parse(stdout) as [{ id: number }];
    await server.bursar('token', 'revoke', String(id), '--reason', 'because of a test');
    assert.equal((await other.get('/jobs/')).status, 401);
  });
});

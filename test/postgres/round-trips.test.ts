import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { jobPath } from '../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { type PostgresProxy, startProxy } from '../support/postgres-proxy.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { zipOf } from '../support/zip.ts';

const repeats = 10;
/** For so long a token that was good need not be asked for again. */
const tokenMs = 2000;

describe('what a request asks of PostgreSQL', () => {
  let postgres: TestPostgres;
  let proxy: PostgresProxy;
  let server: ServerProcess;
  let me: Caller;
  let job: Job;

  before(async () => {
    postgres = await startPostgres();
    proxy = await startProxy(postgres.port);
    const url = (await postgres.database('bursar')).replace(/:\d+\//, `:${proxy.port}/`);
    // One that serves callers and does nothing else.
    const first = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
    await first.stop();
    server = await spawnServer({ data: first.data, role: 'api', env: { BURSAR_DATABASE_URL: url } });
    me = callerOf(server.url, first.userToken);
    job = (await submit()).body;
  });
  after(async () => {
    await server.dispose();
    await proxy.close();
    await postgres.close();
  });

  const submit = async () => {
    const answer = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01 }, await zipOf({ data: 'x' }));
    assert.equal(answer.status, 201, answer.text);
    return answer;
  };

  /** How often it was asked for all of them together, beside the tokens that had to be looked at again. */
  async function roundTrips(act: () => Promise<unknown>): Promise<number> {
    await act();
    const [before, begunAt] = [proxy.roundTrips(), performance.now()];
    for (let n = 0; n < repeats; n++) await act();
    const tokens = Math.ceil((performance.now() - begunAt) / tokenMs) + 1;
    return proxy.roundTrips() - before - tokens;
  }

  const reads: [what: string, path: () => string][] = [
    ['a job', () => jobPath(job)],
    ['the jobs', () => '/jobs/'],
    ['a page of the jobs in a project', () => '/jobs/hpc_one/proj_hpc_one_01/?limit=1'],
    ['the jobs since a moment', () => '/jobs/?since=2020-01-01T00:00:00Z'],
    ['the quotas', () => '/quotas/'],
    ['a quota', () => '/quotas/hpc_one/proj_hpc_one_01/'],
  ];
  for (const [what, path] of reads) {
    test(`${what}: one round trip, unchanged or changed, with a tag or without`, async () => {
      const { headers } = await me.get(path());
      const known = { 'if-none-match': headers.get('etag') ?? '' };
      assert.ok((await roundTrips(async () => assert.equal((await me.get(path())).status, 200))) <= repeats);
      const unchanged = async () => assert.equal((await me.send('GET', path(), known)).status, 304);
      assert.ok((await roundTrips(unchanged)) <= repeats);
      await submit();
      const before = proxy.roundTrips();
      assert.equal((await me.get(path())).status, 200);
      // The word that the submission gave to others, and the token, may fall into it.
      assert.ok(proxy.roundTrips() - before <= 3);
    });
  }

  test('the jobs, one of them changed before each look: one round trip', async () => {
    const change = `
      with raised as (update users set jobs_version = jobs_version + 1 where id = $1 returning jobs_version)
      update jobs set version = raised.jobs_version, public_json = replace(public_json, '"title":"', '"title":"x')
      from raised where job_id = $2`;
    let title = job.title;
    const changedAndRead = async () => {
      title = `x${title}`;
      // Not by the way that is counted, as another instance would.
      await postgres.query('bursar', change, [job.owner, job.job_id]);
      const { body } = await me.get<Job[]>('/jobs/');
      assert.equal(body.find(({ id }) => id === job.id)?.title, title);
    };
    assert.ok((await roundTrips(changedAndRead)) <= repeats);
  });

  test('a submission: ten round trips, of which seven are its transaction', async () => {
    // Two looks before it; begin, five statements, commit; and the word to the others, once or twice.
    assert.ok((await roundTrips(submit)) <= 11 * repeats);
  });

  test('a token that is revoked is refused, though it was good a moment ago', async () => {
    const token = await server.token('4711');
    const other = callerOf(server.url, token);
    assert.equal((await other.get('/jobs/')).status, 200);
    const { stdout } = await server.bursar('token', 'list', '--user', '4711', '--json');
    const [{ id }] = JSON.parse(stdout) as [{ id: number }];
    await server.bursar('token', 'revoke', String(id));
    await until('it is refused', async () => (await other.get('/jobs/')).status === 401 || undefined);
  });
});

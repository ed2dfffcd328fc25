import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

describe('two instances on one PostgreSQL', () => {
  const data = mkdtempSync(join(tmpdir(), 'bursar-shared-'));
  const path = '/jobs/hpc_one/';
  let postgres: TestPostgres;
  let servers: [ServerProcess, ServerProcess];
  let [first, second]: Caller[] = [];

  before(async () => {
    postgres = await startPostgres();
    const env = { BURSAR_DATABASE_URL: await postgres.database('bursar') };
    // Fifty requests wait for the connections of two pools, on a busy machine longer than they usually may.
    const options = { data, env, config: shippedConfig(), tuning: { leaseMs: 1000, connectTimeoutMs: 600_000 } };
    const firstServer = await spawnServer(options);
    servers = [firstServer, await spawnServer(options)];
    [first, second] = servers.map((server) => createCaller(server.url, firstServer.userToken));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await postgres.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    rmSync(`${data}.yaml`, { force: true });
  });

  const callers = () => {
    assert.ok(first && second);
    return [first, second] as const;
  };
  const headers = (key: string) => ({
    'content-disposition': 'attachment; filename=job.zip',
    'idempotency-key': key,
    payload: '{"command": "true"}',
  });
  const submit = (caller: Caller, key: string) => caller.send('POST', path, headers(key)) as Promise<ApiResponse<Job>>;

  test('an ETag of one instance is valid on the other until the data changes', async () => {
    const [one, other] = callers();
    for (const [list, change] of [
      ['/jobs/', () => submit(one, randomUUID())],
      ['/quotas/', () => submit(one, randomUUID())],
    ] as const) {
      await until('all jobs have finished', async () => {
        const unfinished = (await one.get<Job[]>('/jobs/?terminal=false')).body;
        return unfinished.length === 0 ? true : undefined;
      });
      const { headers: responseHeaders, text } = await one.get(list);
      const conditional = { 'if-none-match': responseHeaders.get('etag') ?? '' };
      assert.equal((await other.send('GET', list, conditional)).status, 304);
      assert.equal((await other.get(list)).text, text);
      const { body: job } = (await change()) as ApiResponse<Job>;
      const after = await other.send('GET', list, conditional);
      assert.equal(after.status, 200);
      assert.notEqual(after.text, text);
      await one.waitUntilFinished(job);
    }
  });

  test('fifty concurrent submissions with one key, to both instances, create one job', async () => {
    const [one, other] = callers();
    const key = randomUUID();
    const before = (await one.get<Job[]>('/jobs/')).body.length;
    const responses = await Promise.all(Array.from({ length: 50 }, (_, i) => submit(i % 2 === 0 ? one : other, key)));
    const accepted = responses.filter((response) => response.status === 201);
    assert.equal(new Set(accepted.map((response) => response.text)).size, 1);
    for (const response of responses.filter(({ status }) => status !== 201)) {
      assertProblem(response, { status: 409, code: 'idempotency_key_in_use' });
    }
    assert.equal((await one.get<Job[]>('/jobs/')).body.length, before + 1);
    assert.equal((await submit(other, key)).text, accepted[0]?.text);
  });

  test('a key claimed by a killed instance can be used on the other one after the claim expires', async () => {
    const [one] = callers();
    const [firstServer, secondServer] = servers;
    const key = randomUUID();
    const connection = await openRawConnection(secondServer.url);
    const lines = Object.entries({ ...headers(key), 'content-length': '1000' });
    await connection.write(
      formatRequestHead({ method: 'POST', path, headers: [...lines, bearerHeader(firstServer.userToken)] }),
      'PK',
    );
    const query = (text: string) => postgres.query<{ claimed_by: string }>('bursar', text, [key]);
    await until('the key is claimed', async () =>
      (await query('select claimed_by from idempotency where key = $1')).length > 0 ? true : undefined,
    );
    await secondServer.kill();
    connection.destroy();
    assertProblem(await submit(one, key), { status: 409, code: 'idempotency_key_in_use' });
    await query('update idempotency set claimed_until = 1 where key = $1');
    const accepted = await submit(one, key);
    assert.equal(accepted.status, 201, accepted.text);
    assert.equal((await one.get(jobPath(accepted.body))).status, 200);
  });
});

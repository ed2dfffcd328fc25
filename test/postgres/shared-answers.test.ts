import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type ApiResponse, type Caller, createCaller, type Job } from '../support/api.ts';
import { jobPath } from '../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { assertProblem } from '../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../support/raw-http.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { until } from '../support/until.ts';

describe('answers of two Bursars on one PostgreSQL', () => {
  const data = mkdtempSync(join(tmpdir(), 'bursar-shared-'));
  const path = '/jobs/hpc_one/';
  let postgres: TestPostgres;
  let servers: [ServerProcess, ServerProcess];
  let [here, there]: Caller[] = [];

  before(async () => {
    postgres = await startPostgres();
    const env = { BURSAR_DATABASE_URL: await postgres.database('bursar') };
    const config = { ...shippedConfig(), database: { leaseSeconds: 1 } };
    const first = await spawnServer({ data, config, env });
    servers = [first, await spawnServer({ data, config, env })];
    [here, there] = servers.map((server) => createCaller(server.url, first.userToken));
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await postgres.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    rmSync(`${data}.yaml`, { force: true });
  });

  const callers = () => {
    assert.ok(here && there);
    return [here, there] as const;
  };
  const headers = (key: string) => ({
    'content-disposition': 'attachment; filename=job.zip',
    'idempotency-key': key,
    payload: '{"command": "true"}',
  });
  const submit = (caller: Caller, key: string) => caller.send('POST', path, headers(key)) as Promise<ApiResponse<Job>>;

  test('a tag from one is known to the other, until the one has changed something', async () => {
    const [one, other] = callers();
    for (const [list, change] of [
      ['/jobs/', () => submit(one, randomUUID())],
      ['/quotas/', () => submit(one, randomUUID())],
    ] as const) {
      await until('nothing moves', async () => {
        const open = (await one.get<Job[]>('/jobs/?terminal=false')).body;
        return open.length === 0 ? true : undefined;
      });
      const { headers: told, text } = await one.get(list);
      const known = { 'if-none-match': told.get('etag') ?? '' };
      assert.equal((await other.send('GET', list, known)).status, 304);
      assert.equal((await other.get(list)).text, text);
      const { body: job } = (await change()) as ApiResponse<Job>;
      const after = await other.send('GET', list, known);
      assert.equal(after.status, 200);
      assert.notEqual(after.text, text);
      await one.waitUntilFinished(job);
    }
  });

  test('fifty submissions under one key, to both at once, make one job', async () => {
    const [one, other] = callers();
    const key = randomUUID();
    const before = (await one.get<Job[]>('/jobs/')).body.length;
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => submit(i % 2 === 0 ? one : other, key)));
    const taken = answers.filter((answer) => answer.status === 201);
    assert.equal(new Set(taken.map((answer) => answer.text)).size, 1);
    for (const answer of answers.filter((refused) => refused.status !== 201)) {
      assertProblem(answer, { status: 409, code: 'idempotency_key_in_use' });
    }
    assert.equal((await one.get<Job[]>('/jobs/')).body.length, before + 1);
    assert.equal((await submit(other, key)).text, taken[0]?.text);
  });

  test('a key that a killed one held is free for the other when its time has run out', async () => {
    const [one] = callers();
    const [first, second] = servers;
    const key = randomUUID();
    const wire = await openRawConnection(second.url);
    const lines = Object.entries({ ...headers(key), 'content-length': '1000' });
    await wire.write(
      formatRequestHead({ method: 'POST', path, headers: [...lines, bearerHeader(first.userToken)] }),
      'PK',
    );
    const query = (text: string) => postgres.query<{ claimed_by: string }>('bursar', text, [key]);
    await until('the key is held', async () =>
      (await query('select claimed_by from idempotency where key = $1')).length > 0 ? true : undefined,
    );
    await second.kill();
    wire.destroy();
    assertProblem(await submit(one, key), { status: 409, code: 'idempotency_key_in_use' });
    await query('update idempotency set claimed_until = 1 where key = $1');
    const taken = await submit(one, key);
    assert.equal(taken.status, 201, taken.text);
    assert.equal((await one.get(jobPath(taken.body))).status, 200);
  });
});

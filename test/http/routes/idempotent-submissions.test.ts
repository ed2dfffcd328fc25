import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { assertProblem } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

type Zip = Awaited<ReturnType<typeof createZip>>;
const path = '/jobs/hpc_one/';
const payload = { command: 'sh run.sh', runtime: '0.1', title: 'once' };
let fixture: AccountingFixture;
let me: Caller;
let zip: Zip;

before(async () => {
  fixture = await openAccountingFixture({
    timeSeconds: 1_000_000,
    tuning: { expiryIntervalMs: 200 },
  });
  me = await fixture.user('7');
  zip = await createZip({ 'run.sh': 'echo once\n' });
});
after(() => fixture.dispose());

const headers = (key: string, text = JSON.stringify(payload)) => ({
  'content-disposition': 'attachment; filename=job.zip',
  'idempotency-key': key,
  payload: text,
});
const submit = (key: string, body: NonNullable<RequestInit['body']> = zip, text?: string, caller = me, to = path) =>
  caller.send('POST', to, headers(key, text), body) as Promise<ApiResponse<Job>>;
const jobs = async (caller = me) => (await caller.get<Job[]>('/jobs/')).body;
const keyRow = (key: string) =>
  fixture.query<{ claimed_by: string | null }>('select * from idempotency where key = ?', key);

describe('a submission that is repeated with the same key', () => {
  test('gets the status, Location and body of the first response, and creates no second job', async () => {
    const key = randomUUID();
    const before = await jobs();
    const first = await submit(key);
    assert.equal(first.status, 201, first.text);
    await me.waitUntilFinished(first.body);
    const again = await submit(key);
    assert.deepEqual([again.status, again.text], [201, first.text]);
    assert.equal(again.headers.get('location'), first.headers.get('location'));
    assert.equal((await jobs()).length, before.length + 1);
  });

  test('is the same request in all equivalent forms', async () => {
    const key = randomUUID();
    const first = await submit(key);
    const form = new FormData();
    form.append('file', new Blob([zip]), 'other-name.zip');
    const spellings = [
      () => submit(key, zip, '{ "title": "once", "runtime": "0.1", "command": "sh run.sh" }'),
      () => submit(key, zip, undefined, me, '/jobs/hpc_one'),
      () => submit(key, zip, undefined, me, '/jobs/hpc%5Fone/?'),
      () => submit(key, form),
    ];
    for (const spelling of spellings) assert.equal((await spelling()).text, first.text);
  });

  test('is 422 with another Payload, zip or path', async () => {
    const key = randomUUID();
    assert.equal((await submit(key)).status, 201);
    const before = await jobs();
    const other = await createZip({ 'run.sh': 'echo twice\n' });
    for (const response of [
      await submit(key, zip, JSON.stringify({ ...payload, title: 'another' })),
      await submit(key, other),
      await submit(key, new Uint8Array()),
      await submit(key, zip, undefined, me, '/jobs/hpc_one/proj_hpc_one_01/'),
    ]) {
      assertProblem(response, { status: 422, code: 'idempotency_key_reused' });
    }
    assert.equal((await jobs()).length, before.length);
  });

  test('gets the first response even if it would be rejected now', async () => {
    const key = randomUUID();
    const first = await submit(key);
    const json = { 'content-type': 'application/json' };
    const reason = JSON.stringify({ reason: 'maintenance' });
    await fixture.admin.send('POST', '/admin/systems/hpc_one/pause/', json, reason);
    try {
      assertProblem(await submit(randomUUID()), { status: 503, code: 'system_paused' });
      assert.doesNotMatch(fixture.server.log(), /"level":50/, 'a refusal is no error of the server');
      assert.equal((await submit(key)).text, first.text);
    } finally {
      await fixture.admin.send('POST', '/admin/systems/hpc_one/resume/', json, reason);
    }
  });

  test('is a separate request if another user sends it', async () => {
    const key = randomUUID();
    const other = await fixture.user('8');
    const [mine, theirs] = [await submit(key), await submit(key, zip, undefined, other)];
    assert.deepEqual([mine.status, theirs.status], [201, 201]);
    assert.deepEqual([mine.body.owner, theirs.body.owner], ['7', '8']);
  });

  test('creates one job when it is sent fifty times concurrently', async () => {
    const key = randomUUID();
    const before = await jobs();
    const responses = await Promise.all(Array.from({ length: 50 }, () => submit(key)));
    const taken = responses.filter((response) => response.status === 201);
    assert.ok(taken.length > 0);
    assert.equal(new Set(taken.map((response) => response.text)).size, 1);
    for (const response of responses.filter((other) => other.status !== 201)) {
      assertProblem(response, { status: 409, code: 'idempotency_key_in_use' });
    }
    assert.equal((await jobs()).length, before.length + 1);
  });
});

describe('a submission whose key is still in progress', () => {
  const beginOf = async (key: string) => {
    const connection = await openRawConnection(fixture.server.url);
    const lines = Object.entries({ ...headers(key), 'content-length': String(zip.length) });
    const token = await fixture.token('7');
    await connection.write(
      formatRequestHead({ method: 'POST', path, headers: [...lines, bearerHeader(token)] }),
      zip.subarray(0, 20),
    );
    await until('the key is claimed', async () => ((await keyRow(key)).length > 0 ? true : undefined));
    return connection;
  };

  test('is 409 with Retry-After, and later gets the response', async () => {
    const key = randomUUID();
    const connection = await beginOf(key);
    const early = await submit(key);
    assertProblem(early, { status: 409, code: 'idempotency_key_in_use', message: /same key/ });
    assert.match(early.headers.get('retry-after') ?? '', /^\d+$/);
    await connection.write(zip.subarray(20));
    const [first] = await connection.readResponses(1);
    assert.equal(first?.status, 201);
    assert.equal((await submit(key)).text, first?.text);
  });

  test('is accepted after the first one was interrupted', async () => {
    const key = randomUUID();
    const before = await jobs();
    const connection = await beginOf(key);
    connection.destroy();
    await until('the key is released', async () => ((await keyRow(key)).length === 0 ? true : undefined));
    assert.equal((await submit(key)).status, 201);
    assert.equal((await jobs()).length, before.length + 1);
  });

  test('is accepted after the claim of the first one has expired, and the first one then fails', async () => {
    const key = randomUUID();
    const before = await jobs();
    const connection = await beginOf(key);
    await fixture.tamper('update idempotency set claimed_until = 1 where key = ?', key);
    const second = await submit(key);
    assert.equal(second.status, 201);
    await connection.write(zip.subarray(20));
    const [late] = await connection.readResponses(1);
    assertProblem(late as ApiResponse, { status: 409, code: 'idempotency_key_in_use' });
    assert.equal((await jobs()).length, before.length + 1);
    assert.equal((await submit(key)).text, second.text);
  });
});

describe('an idempotency key', () => {
  test('can be used again after a rejection, because nothing was done', async () => {
    const key = randomUUID();
    assertProblem(await submit(key, Buffer.from('no zip')), { status: 400, code: 'invalid_zip' });
    assertProblem(await submit(key, zip, '{}'), { status: 400, code: 'invalid_payload' });
    const much = JSON.stringify({ ...payload, node_number: 64, core_number: 128, runtime: 48 });
    assertProblem(await submit(key, zip, much), { status: 403, code: 'quota_exceeded' });
    assert.deepEqual(await keyRow(key), []);
    assert.equal((await submit(key)).status, 201);
  });

  test('must be visible ASCII of 1 to 200 characters, sent once', async () => {
    const before = await jobs();
    for (const key of ['', 'two words', 'x'.repeat(201), 'gr\u00fcn', 'a, b']) {
      assertProblem(await submit(key), { status: 400, code: 'idempotency_key_invalid', message: /1 to 200/ });
    }
    for (const key of [
      'x'.repeat(200),
      '"8e03978e-40d5-43dd-bc93-6894a57f9324"',
      "'; drop table jobs; --".replaceAll(' ', ''),
    ]) {
      const response = await submit(key);
      assert.equal(response.status, 201, key);
      assert.equal((await submit(key)).text, response.text);
    }
    assert.equal((await jobs()).length, before.length + 3);
  });

  test('is deleted after a day', async () => {
    const key = randomUUID();
    const first = await submit(key);
    await fixture.tamper(
      'update idempotency set at = ?, claimed_until = 0 where key = ?',
      Date.now() - 86_400_001,
      key,
    );
    await until('the key is deleted', async () => ((await keyRow(key)).length === 0 ? true : undefined));
    const second = await submit(key);
    assert.equal(second.status, 201);
    assert.notEqual(second.body.job_id, first.body.job_id);
  });

  test('survives a restart of the server, and an interrupted request does not block it', async () => {
    const [done, begun] = [randomUUID(), randomUUID()];
    const first = await submit(done);
    await fixture.tamper(
      `insert into idempotency (user_id, key, request_hash, response, at, claimed_by, claimed_until)
       values ('7', ?, 'any', '', ?, 'a server that was killed', ?)`,
      ...[begun, Date.now(), Date.now() + 3_600_000],
    );
    assert.equal((await submit(begun)).status, 422);
    await fixture.restart('SIGTERM');
    me = createCaller(fixture.server.url, await fixture.token('7'));
    assert.equal((await submit(done)).text, first.text);
    assert.equal((await submit(begun)).status, 201);
  });
});

test('every other POST accepts a key too: quotes, and pausing a system', async () => {
  const key = randomUUID();
  const ask = (title: string) =>
    me.send('POST', '/quotes/hpc_one/', {
      'idempotency-key': key,
      payload: JSON.stringify({ command: 'true', title }),
    });
  const first = await ask('a');
  await submit(randomUUID());
  assert.deepEqual([(await ask('a')).text, first.status], [first.text, 200]);
  assertProblem(await ask('b'), { status: 422, code: 'idempotency_key_reused' });

  const admin = await fixture.administrator('9');
  const pause = (act: string, pauseKey: string) => {
    const json = { 'content-type': 'application/json', 'idempotency-key': pauseKey };
    return admin.send('POST', `/admin/systems/hpc_two/${act}/`, json, JSON.stringify({ reason: 'maintenance' }));
  };
  const paused = await pause('pause', 'p1');
  await pause('resume', 'r1');
  assert.equal((await pause('pause', 'p1')).text, paused.text);
  assertProblem(await pause('resume', 'p1'), { status: 422, code: 'idempotency_key_reused' });
  // The repeated pause did not run again: the system is still resumed.
  assert.equal((await me.send('POST', '/quotes/hpc_two/', { payload: '{"tool":"BASH"}' })).status, 200);
});

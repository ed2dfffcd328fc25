import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, adminId, openAccountingFixture } from '../../support/accounting-fixture.ts';
import { type Caller, createCaller } from '../../support/api.ts';
import { parseCsv } from '../../support/csv.ts';
import { runJob, setMember, topUp } from '../../support/ledger.ts';
import { readLogLines } from '../../support/logs.ts';
import { until } from '../../support/until.ts';

interface AuditRecord {
  id: number;
  at: string;
  actor: string;
  address: string | null;
  token_id: number | null;
  session_id: number | null;
  request_id: string | null;
  action: string;
  subject: string;
  details: Record<string, unknown>;
  hash: string;
}

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;
before(async () => {
  fixture = await openAccountingFixture({
    adjust: (config) => Object.assign(config, { limits: { failedSignIns: 1000 } }),
  });
  admin = fixture.admin;
  await fixture.user('302801');
  await fixture.user('302802');
});
after(() => fixture.dispose());

const readTrail = async (query = '') => (await admin.get<AuditRecord[]>(`/admin/audit/${query}`)).body;

/** Waits for a record of a refused request: they are written in the background. */
const refusal = (query: string, isWanted: (record: AuditRecord) => boolean = () => true) =>
  until('the refusal is recorded', async () =>
    (await readTrail(`?action=access.refused&${query}`)).find((record) => isWanted(record)),
  );

describe('a record of the audit trail', () => {
  test('has the address, the token and the request of the actor', async () => {
    const body = { status: 'active', reason };
    const path = '/admin/projects/hpc_one/proj_hpc_one_01/members/302801/';
    const headers = { 'content-type': 'application/json', 'x-request-id': 'audited-17' };
    assert.equal((await admin.send('PUT', path, headers, JSON.stringify(body))).status, 200);
    const [record, ...others] = await readTrail('?request_id=audited-17');
    assert.deepEqual(others, []);
    assert.deepEqual([record?.actor, record?.action, record?.address], [adminId, 'member.active', '127.0.0.1']);
    assert.equal(typeof record?.token_id, 'number');
  });

  test('has neither address nor token if a command was run', async () => {
    const options = ['--user', '302801', '--time', '1', '--reason', reason, '--actor', 'night-shift'];
    assert.equal((await fixture.bursar('grant', 'hpc_one/proj_hpc_one_01', ...options)).code, 0);
    const [record] = await readTrail('?actor=night-shift');
    assert.deepEqual([record?.address, record?.token_id, record?.request_id], [null, null, null]);
  });
});

describe('the filters of the audit trail', () => {
  before(async () => {
    await setMember(admin, 'hpc_two/proj_hpc_two_02', '302801', 'active', reason);
    await topUp(admin, '302802', 1);
  });

  test('select by actor, action, subject, address and time', async () => {
    const all = await readTrail('?limit=1000');
    const expect = async (query: string, isWanted: (record: AuditRecord) => boolean) => {
      const selected = await readTrail(`?limit=1000&${query}`);
      assert.deepEqual(
        selected.map(({ id }) => id),
        all.filter(isWanted).map(({ id }) => id),
        query,
      );
      return selected.length;
    };
    assert.ok((await expect('actor=night-shift', ({ actor }) => actor === 'night-shift')) > 0);
    assert.ok((await expect('action=grant', ({ action }) => action.startsWith('grant.'))) > 0);
    assert.ok((await expect('action=grant.top_up', ({ action }) => action === 'grant.top_up')) > 0);
    assert.equal(await expect('action=gran', () => false), 0);
    const path = 'hpc_two/proj_hpc_two_02';
    assert.ok((await expect(`subject=${path}`, ({ subject }) => `${subject}/`.startsWith(`${path}/`))) > 0);
    assert.equal(await expect('subject=hpc_one/proj_hpc_one_0', () => false), 0);
    assert.equal(await expect('subject=%25', () => false), 0);
    assert.ok((await expect('address=127.0.0.1', ({ address }) => address === '127.0.0.1')) > 0);
    const { at } = all[1] ?? { at: '' };
    assert.ok((await expect(`from=${at}`, (record) => record.at >= at)) > 0);
    assert.ok((await expect(`to=${at}`, (record) => record.at < at)) > 0);
    assert.equal((await admin.get('/admin/audit/?from=yesterday')).status, 400);
    assert.equal((await admin.get('/admin/audit/?actor=%00')).status, 200);
  });
});

describe('the export of the audit trail', () => {
  test('has the same records as CSV and as NDJSON, without a limit', async () => {
    const records = await readTrail('?limit=1000&action=grant');
    const unchecked = createCaller(fixture.server.url, fixture.server.adminToken);
    const lines = await unchecked.get('/admin/audit/?action=grant&format=ndjson');
    assert.equal(lines.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
    const parsed = lines.text.split('\n').filter(Boolean);
    assert.deepEqual(
      parsed.map((line) => JSON.parse(line)),
      records,
    );
    const csv = await unchecked.send('GET', '/admin/audit/?action=grant', { accept: 'text/csv' });
    const [header, ...rows] = parseCsv(csv.text);
    assert.deepEqual(header, Object.keys(records[0] ?? {}));
    assert.equal(rows.length, records.length);
    assert.deepEqual(JSON.parse(rows[0]?.[9] ?? ''), records[0]?.details);
  });
});

describe('a refused request', () => {
  test('with a wrong token is recorded with its address', async () => {
    const nobody = createCaller(fixture.server.url, 'bursar_wrong');
    assert.equal((await nobody.get('/jobs/')).status, 401);
    const record = await refusal('actor=anonymous');
    assert.deepEqual([record.subject, record.details.code], ['GET /jobs/', 'token_invalid']);
    assert.equal(record.address, '127.0.0.1');
    assert.ok(record.request_id);
  });

  test('with a revoked token is recorded with its owner and its id', async () => {
    const token = await fixture.server.token('302803');
    const caller = createCaller(fixture.server.url, token);
    const [{ id } = { id: 0 }] = (await caller.get<{ id: number }[]>('/me/tokens/')).body;
    await caller.send('DELETE', `/me/tokens/${id}/`);
    assert.equal((await caller.get('/quotas/')).status, 401);
    const record = await refusal('actor=302803');
    assert.deepEqual([record.token_id, record.details.reason], [id, 'a revoked token']);
  });

  test('without the role, or for a job of another user, is recorded', async () => {
    const user = await fixture.user('302801');
    assert.equal((await user.get('/admin/users/')).status, 403);
    const record = await refusal('actor=302801', ({ subject }) => subject === 'GET /admin/users/');
    assert.equal(record.details.code, 'forbidden');
    assert.equal(record.details.required_role, 'auditor operator administrator');

    const job = await runJob(await fixture.user('302802'), { command: 'true' });
    const path = `/jobs/hpc_one/proj_hpc_one_01/${job.job_id}/`;
    for (const suffix of ['', 'timeline/']) assert.equal((await user.get(path + suffix)).status, 404);
    const others = await refusal('actor=302801', ({ subject }) => subject === `GET ${path}`);
    assert.deepEqual([others.details.code, others.details.reason], ['job_unknown', 'the job of another user']);
    await refusal('actor=302801', ({ subject }) => subject === `GET ${path}timeline/`);
    // A job that does not exist is a mistake, not a refusal.
    assert.equal((await user.get('/jobs/hpc_one/proj_hpc_one_01/none/')).status, 404);
    assert.equal((await user.get('/admin/audit/')).status, 403);
    await refusal('actor=302801', ({ subject }) => subject === 'GET /admin/audit/');
    assert.ok(!(await readTrail('?action=access')).some(({ subject }) => subject.includes('none')));
  });

  test('is recorded once with the number of its repetitions', async () => {
    const nobody = createCaller(fixture.server.url, 'bursar_again');
    for (let i = 0; i < 20; i++) assert.equal((await nobody.get('/jobs/again/')).status, 401);
    await refusal('actor=anonymous', ({ subject }) => subject === 'GET /jobs/again/');
    await fixture.restart('SIGTERM');
    admin = fixture.admin;
    const records = (await readTrail('?action=access&limit=1000')).filter(
      ({ subject }) => subject === 'GET /jobs/again/',
    );
    assert.ok(records.length <= 3, `${records.length} records`);
    assert.equal(
      records.reduce((sum, { details }) => sum + Number(details.count ?? 1), 0),
      20,
    );
  });

  test('leaves no token in the audit trail', async () => {
    const nobody = createCaller(fixture.server.url, 'bursar_wrong');
    await nobody.get('/jobs/bursar_abcdefghijklmnopqrstuvwxyz/?token=bursar_secret');
    const record = await refusal('actor=anonymous', ({ subject }) => subject.includes('***'));
    assert.equal(record.subject, 'GET /jobs/***/');
  });
});

test('the access log has the user, the token and the address', async () => {
  const user = await fixture.user('302801');
  // The second and third responses come from the cache.
  for (const id of ['a', 'b', 'c']) await user.send('GET', '/quotas/', { 'x-request-id': `logged-${id}` });
  const lines = (await readLogLines(fixture.server)).filter(({ reqId }) => reqId?.startsWith('logged-'));
  assert.equal(lines.length, 3);
  for (const line of lines) {
    assert.deepEqual([line.user, line.address], ['302801', '127.0.0.1']);
    assert.equal(typeof line.token, 'number');
  }
});

describe('bursar audit verify', () => {
  const verify = (...options: string[]) => fixture.bursar('audit', 'verify', ...options);
  const noteHash = async () => (await verify()).stdout.trim().split('\n').at(-1) ?? '';

  test('proves that no record was changed, and contains an earlier hash', async () => {
    const hash = await noteHash();
    assert.match(hash, /^[0-9a-f]{64}$/);
    await topUp(admin, '302801', 1);
    const { code, stdout } = await verify('--contains', hash, '--json');
    assert.equal(code, 0, stdout);
    const { intact, records, lastHash, problems } = JSON.parse(stdout);
    const [last] = await readTrail('?limit=1');
    assert.deepEqual([intact, lastHash, problems], [true, last?.hash, []]);
    assert.ok(records > 5);
    assert.equal((await verify('--contains', 'x')).code, 2);
    assert.equal((await verify('--contains', '0'.repeat(64))).code, 1);
  });
});

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { readAuditTrail } from '../../../src/services/identity/audit-trail.ts';
import { createRefusalRecorder } from '../../../src/services/identity/refusal-recorder.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { insertAudit, listAudit } from '../../../src/store/identity/audit.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

let database: TestDatabase;
before(async () => {
  database = await openTestDatabase(['302811'], 1, 1);
});
after(() => database.close());

const log = { warn: (fields: object, message: string) => assert.fail(`${message} ${JSON.stringify(fields)}`) };

/** Records refused requests, and returns what the audit trail has of them. */
async function record(requests: Iterable<{ address: string; path: string }>) {
  const { db } = database;
  const recorder = createRefusalRecorder({ db, now: Date.now, log, writeIntervalMs: 1_000_000 });
  const [{ id: before = 0 } = {}] = await listAudit(db, {}, 1);
  const error = new BursarError('session_ended', 'Your session has ended.');
  for (const { address, path } of requests)
    recorder.record({ error, caller: null, address, requestId: 'r', method: 'GET', path });
  await recorder.stop();
  return (await listAudit(db, {}, 10_000)).filter(({ id }) => id > before);
}

const countOf = (records: Awaited<ReturnType<typeof record>>) =>
  records.reduce((sum, { details }) => sum + Number(details.count ?? 1), 0);

test('one client cannot fill the audit trail, nor hide the paths of another one', async () => {
  const flood = Array.from({ length: 5000 }, (_, index) => ({ address: '192.0.2.7', path: `/jobs/${index}/` }));
  const records = await record([...flood, { address: '192.0.2.8', path: '/admin/users/' }]);
  assert.equal(records.length, 22);
  assert.equal(countOf(records), 5001);
  assert.ok(records.some(({ actor, subject }) => actor.address === '192.0.2.8' && subject === 'GET /admin/users/'));
});

test('many clients together cannot fill the audit trail', async () => {
  const flood = Array.from({ length: 5000 }, (_, index) => ({
    address: `2001:db8::${index}`,
    path: `/jobs/${index}/`,
  }));
  const records = await record(flood);
  assert.equal(records.length, 2001);
  assert.equal(countOf(records), 5000);
});

test('the audit trail is newest first, though refused requests are recorded later than they came', async () => {
  const { db } = database;
  let time = Date.now() + 1_000_000;
  const recorder = createRefusalRecorder({ db, now: () => time, log, writeIntervalMs: 1_000_000 });
  const error = new BursarError('session_ended', 'Your session has ended.');
  const refuse = (path: string) =>
    recorder.record({ error, caller: null, address: '192.0.2.9', requestId: 'r', method: 'GET', path });
  const actor = { userId: '302811', address: null, tokenId: null, sessionId: null, requestId: null };
  const act = (name: string) =>
    inTransaction(db, (tx) => insertAudit(tx, { actor, action: name, subject: '', details: {}, at: time }));
  refuse('/first/');
  time += 1000;
  await act('second');
  time += 1000;
  refuse('/third/');
  time += 1000;
  await act('fourth');
  await recorder.stop();

  const expected = ['fourth', 'GET /third/', 'second', 'GET /first/'];
  const records = (await Array.fromAsync(readAuditTrail({ db }, {}, { limit: 4 }))).flat();
  const nameOf = ({ action: name, subject }: (typeof records)[number]) => subject || name;
  assert.deepEqual(records.map(nameOf), expected);
  const pages: string[] = [];
  for (let before: number | undefined; pages.length < 4; ) {
    const [record] = (await Array.fromAsync(readAuditTrail({ db }, {}, { limit: 1, before }))).flat();
    assert.ok(record);
    pages.push(nameOf(record));
    before = record.id;
  }
  assert.deepEqual(pages, expected);
});

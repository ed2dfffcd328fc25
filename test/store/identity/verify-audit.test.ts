import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sql } from 'kysely';
import { commandLineActor } from '../../../src/services/identity/actor.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { insertAudit } from '../../../src/store/identity/audit.ts';
import { verifyAudit } from '../../../src/store/identity/verify-audit.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await openTestDatabase(['1'], 1, 1);
  db = database.db;
});
after(() => database.close());

class RolledBack extends Error {}

const act = (number: number, at = number) =>
  inTransaction(db, (tx) =>
    insertAudit(tx, { actor: commandLineActor('1'), action: 'test', subject: `${number}`, details: { number }, at }),
  );

const lastHash = async () => (await verifyAudit(db)).lastHash ?? '';

test('an empty audit trail is intact', async () => {
  assert.deepEqual(await verifyAudit(db), { intact: true, records: 0, lastHash: null, problems: [] });
});

test('concurrent acts are chained one after the other', async () => {
  await Promise.all(Array.from({ length: 20 }, (_, number) => act(number)));
  const { intact, records, problems } = await verifyAudit(db);
  assert.deepEqual([intact, records, problems], [true, 20, []]);
});

test('an act that is rolled back leaves no record', async () => {
  const hash = await lastHash();
  const refused = inTransaction(db, async (tx) => {
    await insertAudit(tx, { actor: commandLineActor('1'), action: 'test', subject: 'x', details: {}, at: 1 });
    throw new RolledBack();
  });
  await assert.rejects(refused, RolledBack);
  assert.equal(await lastHash(), hash);
  assert.equal((await verifyAudit(db)).intact, true);
});

test('the verification finds every kind of change', async () => {
  await act(50);
  const known = await lastHash();
  await act(51);
  const rows = await db.selectFrom('audit').select(['id', 'hash']).orderBy('id').execute();
  const [first, second, ...rest] = rows;
  const last = rows.at(-1);
  const beforeKnown = rows.at(-3);
  assert.ok(first && second && last && beforeKnown && rest.length > 3);
  const forgedHead = `update settings set value = '${beforeKnown.hash}' where name = 'audit_hash'`;
  const changes: [description: string, statements: string[], problem: RegExp][] = [
    ...['actor', 'address', 'request_id', 'action', 'subject', 'details'].map((column): [string, string[], RegExp] => [
      column,
      [`update audit set ${column} = '{}' where id = ${second.id}`],
      new RegExp(`^record ${second.id} was changed`),
    ]),
    ...['token_id', 'session_id', 'at'].map((column): [string, string[], RegExp] => [
      column,
      [`update audit set ${column} = 99 where id = ${second.id}`],
      new RegExp(`^record ${second.id} was changed`),
    ]),
    [
      'removed',
      [`delete from audit where id = ${first.id}`],
      new RegExp(`^record ${second.id} was changed, or records`),
    ],
    [
      'inserted',
      [`insert into audit (actor, action, subject, details, at, hash) values ('1', 'x', '', '{}', 1, '${last.hash}')`],
      /^record \d+ was changed/,
    ],
    ['removed at the end', [`delete from audit where id = ${last.id}`], /^the last records were changed or removed/],
    // Only the hash that was noted elsewhere shows this.
    [
      'forged',
      [`delete from audit where id > ${beforeKnown.id}`, forgedHead],
      new RegExp(`^no record has the hash ${known}`),
    ],
  ];
  const unlock =
    db.backend.dialect.name === 'postgres'
      ? ['set local session_replication_role = replica']
      : ['update', 'delete'].map((change) => `drop trigger audit_refuse_${change}`);
  for (const [description, statements, problem] of changes) {
    const changeAndRollBack = inTransaction(db, async (tx) => {
      for (const statement of [...unlock, ...statements]) await sql.raw(statement).execute(tx);
      const { problems, intact } = await verifyAudit(tx, known);
      assert.ok(!intact && problems.some((text) => problem.test(text)), `${description}: ${problems.join('\n')}`);
      throw new RolledBack();
    });
    await assert.rejects(changeAndRollBack, RolledBack);
  }
  assert.deepEqual((await verifyAudit(db, known)).problems, []);
});

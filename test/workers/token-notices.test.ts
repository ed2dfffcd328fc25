import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { userScopes } from '../../src/domain/identity/policy.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { listEventsAfter } from '../../src/store/events/events.ts';
import { revokeToken } from '../../src/store/identity/tokens.ts';
import { updateUser } from '../../src/store/identity/users.ts';
import { notifyTokenOwners } from '../../src/workers/expiry-worker.ts';
import { openTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { storeToken } from '../support/tokens.ts';

const dayMs = 86_400_000;
const start = Date.parse('2026-01-01T00:00:00Z');

describe('the owner of a token', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1', '2', '3'], 1000, 1000);
  });
  after(() => database.close());

  const createToken = async (userId: string, name: string, days: number | null) => {
    const expiresAt = days === null ? null : start + days * dayMs;
    return (await storeToken(database.db, { userId, name, scopes: userScopes, expiresAt }, start)).id;
  };
  /** Runs the worker, and returns whom it notified. */
  async function runOn(day: number): Promise<string[]> {
    const published: string[] = [];
    await notifyTokenOwners({
      ...{ db: database.db, noticeDays: 7, publish: (userId) => published.push(userId) },
      lease: { transaction: (work) => inTransaction(database.db, work) },
      now: () => start + day * dayMs,
    });
    return published;
  }
  const eventsOf = async (userId: string) =>
    (await listEventsAfter(database.db, userId, 0, 100)).map(({ kind, data }) => [kind, JSON.parse(data)]);

  test('is notified once, a week before its end, unless it is revoked or was to live for days only', async () => {
    const id = await createToken('1', 'cluster script', 90);
    const revoked = await createToken('1', 'revoked', 90);
    await revokeToken(database.db, revoked, start);
    await createToken('1', 'for three days', 3);
    await createToken('1', 'for a week', 7);
    await createToken('1', 'for ever', null);
    await createToken('1', 'later', 91);
    assert.deepEqual(await runOn(0), []);
    assert.deepEqual(await runOn(82), []);
    assert.deepEqual(await runOn(83), ['1']);
    assert.deepEqual(await runOn(83), []);
    const data = { token_id: id, token_name: 'cluster script', expires_at: '2026-04-01T00:00:00.000Z' };
    assert.deepEqual(await eventsOf('1'), [['token.expiring', data]]);
  });

  test('is not notified while disabled, nor of a token that has ended', async () => {
    await createToken('2', 'of a disabled user', 90);
    await inTransaction(database.db, (tx) => updateUser(tx, '2', { disabledAt: start }));
    await createToken('3', 'ended while no worker ran', 20);
    const published = await runOn(85);
    assert.ok(!published.includes('2') && !published.includes('3'), String(published));
    await inTransaction(database.db, (tx) => updateUser(tx, '2', { disabledAt: null }));
    assert.deepEqual(await runOn(86), ['2']);
  });
});

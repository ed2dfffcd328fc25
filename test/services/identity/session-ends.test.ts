import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { listSessions, requireSession, startSession } from '../../../src/services/identity/sessions.ts';
import { hashToken } from '../../../src/services/identity/tokens.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findSessionByHash } from '../../../src/store/identity/sessions.ts';
import { deleteExpiredSignIns } from '../../../src/store/identity/sign-ins.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

describe('a session ends', () => {
  const minute = 60_000;
  let database: TestDatabase;
  let now = 1_800_000_000_000;
  const visitor = { address: '192.0.2.1', userAgent: 'test', requestId: 'r', session: undefined };
  const deps = () => ({
    db: database.db,
    sessions: { idleMs: 30 * minute, maxMs: 2 * 60 * minute },
    now: () => now,
  });
  const start = async () => {
    const options = { userId: '301330', provider: null };
    const { secret } = await inTransaction(database.db, (tx) => startSession(tx, deps(), visitor, options));
    return hashToken(secret);
  };

  before(async () => {
    database = await openTestDatabase(['301330'], 1, 1);
  });
  after(() => database.close());

  test('when it was not used for a while', async () => {
    const hash = await start();
    now += 30 * minute - 1;
    await requireSession(deps(), hash, true);
    await until('the use is stored', async () =>
      (await findSessionByHash(database.db, hash))?.lastUsedAt === now ? true : undefined,
    );
    now += 30 * minute - 1;
    assert.equal((await listSessions(deps(), '301330', null)).length, 1);
    now += 1;
    assert.equal((await listSessions(deps(), '301330', null)).length, 0);
    await assert.rejects(requireSession(deps(), hash, true), { code: 'session_ended' });
  });

  test('after its longest life, however often it is used', async () => {
    const hash = await start();
    const end = now + 2 * 60 * minute;
    while (now + 20 * minute < end) {
      now += 20 * minute;
      await requireSession(deps(), hash, true);
      const used = now;
      await until('the use is stored', async () =>
        (await findSessionByHash(database.db, hash))?.lastUsedAt === used ? true : undefined,
      );
    }
    now = end - 1;
    await requireSession(deps(), hash, true);
    now = end;
    await assert.rejects(requireSession(deps(), hash, true), { code: 'session_ended' });
    await inTransaction(database.db, (tx) => deleteExpiredSignIns(tx, now + 1));
    assert.equal(await findSessionByHash(database.db, hash), undefined);
  });

  test('and a use is stored once a minute at most', async () => {
    const hash = await start();
    const createdAt = now;
    now += minute - 1;
    await requireSession(deps(), hash, true);
    await setImmediate();
    assert.equal((await findSessionByHash(database.db, hash))?.lastUsedAt, createdAt);
  });
});

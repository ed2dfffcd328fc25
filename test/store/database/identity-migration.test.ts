import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { tokenScopes } from '../../../src/domain/identity/policy.ts';
import { connectDatabase } from '../../../src/store/database/database.ts';
import { verifyAudit } from '../../../src/store/identity/verify-audit.ts';
import { createCaller } from '../../support/api.ts';
import { databaseSettings, withDatabase } from '../../support/database.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { sendJson } from '../../support/webhooks.ts';
import { undoMigrations } from './undo-migrations.ts';

// The upgrade from the version before roles and scopes, whose tokens only had the flag of an administrator.

interface Me {
  user: string;
  roles: string[];
  scopes: string[];
  expires_at: string | null;
}

const userScopes = tokenScopes.filter((scope) => !scope.startsWith('admin:'));
const reason = 'because of a test';
const hourMs = 3_600_000;

describe('after an upgrade', () => {
  let server: TestServer;
  let tokens: Record<'admin' | 'everyday' | 'user' | 'expiring' | 'expired' | 'revoked', string>;
  let expiries: Map<string, number | null>;

  before(async () => {
    const old = await startServer();
    const { data, adminToken: admin, userToken: user } = old;
    tokens = {
      ...{ admin, user },
      everyday: await old.token('300001', { name: 'everyday' }),
      expiring: await old.token('301330', { name: 'expiring', validMs: 90 * 24 * hourMs }),
      expired: await old.token('301330', { name: 'expired', validMs: hourMs }),
      revoked: await old.token('301330', { name: 'revoked' }),
    };
    const grant = { kind: 'top_up', resource: 'time', amount: 60, reason };
    for (const key of ['a', 'b']) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': key };
      const path = '/admin/grants/hpc_one/proj_hpc_one_01/members/301330/';
      const { status } = await createCaller(old.url, admin).send('POST', path, headers, JSON.stringify(grant));
      assert.equal(status, 201);
    }
    await old.stop();

    const db = connectDatabase(databaseSettings(data), data);
    await undoMigrations(db, '0014');
    await sql`update tokens set admin = 1 where user_id = '300001' and name = 'first start'`.execute(db);
    await sql`update tokens set expires_at = created_at where name = 'expired'`.execute(db);
    await sql`update tokens set revoked_at = created_at where name = 'revoked'`.execute(db);
    const { rows } = await sql<{ name: string; expires_at: number | null }>`select * from tokens`.execute(db);
    expiries = new Map(rows.map(({ name, expires_at }) => [name, expires_at]));
    await db.destroy();
    server = await startServer({ data });
  });
  after(() => server.dispose());

  const readMe = (token: string) => createCaller(server.url, token).get<Me>('/me/');

  test('tokens keep what they could do, with all scopes of that, and their expiry', async () => {
    const expiry = new Date(expiries.get('expiring') ?? Number.NaN).toISOString();
    const expected: [keyof typeof tokens, Me][] = [
      ['admin', { user: '300001', roles: ['administrator'], scopes: [...tokenScopes], expires_at: null }],
      ['everyday', { user: '300001', roles: ['administrator'], scopes: userScopes, expires_at: null }],
      ['user', { user: '301330', roles: ['user'], scopes: userScopes, expires_at: null }],
      ['expiring', { user: '301330', roles: ['user'], scopes: userScopes, expires_at: expiry }],
    ];
    for (const [name, me] of expected) {
      const { status, body } = await readMe(tokens[name]);
      const { user, roles, scopes, expires_at } = body;
      assert.deepEqual({ name, status, user, roles, scopes, expires_at }, { name, status: 200, ...me });
    }
    for (const name of ['expired', 'revoked'] as const) assert.equal((await readMe(tokens[name])).status, 401, name);
    const statuses = [tokens.admin, tokens.everyday, tokens.user].map(async (token) => {
      return (await createCaller(server.url, token).get('/admin/quotas/301330/')).status;
    });
    assert.deepEqual(await Promise.all(statuses), [200, 403, 403]);
    const stored = await withDatabase(server.data, (db) =>
      db.selectFrom('tokens').select(['name', 'expires_at']).execute(),
    );
    assert.deepEqual(new Map(stored.map(({ name, expires_at }) => [name, expires_at])), expiries);
  });

  test('the records of the audit trail from before are the start of the chain of hashes', async () => {
    const verify = () => withDatabase(server.data, (db) => verifyAudit(db));
    const before = await verify();
    assert.deepEqual([before.intact, before.problems], [true, []]);
    assert.ok(before.records >= 2, `${before.records} records`);
    const admin = createCaller(server.url, tokens.admin);
    assert.equal((await sendJson(admin, 'POST', '/admin/users/301330/disable/', { reason })).status, 200);
    const after = await withDatabase(server.data, (db) => verifyAudit(db, before.lastHash ?? ''));
    assert.deepEqual([after.intact, after.problems], [true, []]);
    assert.ok(after.records > before.records);
  });
});

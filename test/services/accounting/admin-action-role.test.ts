import assert from 'node:assert/strict';
import { test } from 'node:test';
import { executeAdminAction } from '../../../src/services/accounting/admin-actions.ts';
import { listAudit } from '../../../src/store/identity/audit.ts';
import { openTestDatabase } from '../../support/test-database.ts';

// The routes check the role too. This is the check that a new route cannot forget.
test('an action of an administrator is not executed for another user', async () => {
  const database = await openTestDatabase(['1'], 1000, 500);
  let executed = 0;
  const execute = async () => {
    executed += 1;
  };
  const action = { name: 'grant.top_up', subject: 'sys/proj', details: {}, execute };
  try {
    const actor = { userId: '1', admin: false };
    await assert.rejects(executeAdminAction(database.db, null, { ...action, actor }, 1), { code: 'forbidden' });
    assert.equal(executed, 0);
    await executeAdminAction(database.db, null, { ...action, actor: { ...actor, admin: true } }, 1);
    assert.equal(executed, 1);
    assert.equal((await listAudit(database.db, 10)).length, 1);
  } finally {
    await database.close();
  }
});

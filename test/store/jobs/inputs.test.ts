import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { deleteInput, findInput } from '../../../src/store/jobs/inputs.ts';
import { insertJob } from '../../../src/store/jobs/jobs.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

describe('stored inputs', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1'], 1000, 1000);
  });
  after(() => database.close());

  async function insert(jobId: string, content: Buffer | null, shouldFail = false): Promise<number> {
    const project = await findProject(database.db, 'sys', 'proj');
    assert.ok(project);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const input = { sha256: 'f', bytes: 1, unpackedBytes: 1, content };
    const job = { jobId, owner: '1', project, request, units: 1, input, acceptedAt: 1 };
    return await inTransaction(database.db, async (tx) => {
      const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
      if (shouldFail) throw new Error('rolled back');
      return id;
    });
  }

  test('are read unchanged, each for its own job, until they are deleted', async () => {
    const [large, small] = [randomBytes(maxInMemoryBytes), Buffer.from([0, 255, 0x27, 0x5c, 0])];
    const [first, second, file] = [await insert('A-1', large), await insert('A-2', small), await insert('A-3', null)];
    assert.deepEqual(await findInput(database.db, first), large);
    assert.deepEqual(await findInput(database.db, second), small);
    assert.equal(await findInput(database.db, file), undefined);
    for (let times = 0; times < 2; times++) await inTransaction(database.db, (tx) => deleteInput(tx, first));
    assert.equal(await findInput(database.db, first), undefined);
    assert.deepEqual(await findInput(database.db, second), small);
  });

  test('are rolled back together with their job', async () => {
    const count = async () => (await database.db.selectFrom('inputs').select('job').execute()).length;
    const before = await count();
    await assert.rejects(insert('B-1', Buffer.from('zip'), true), /rolled back/);
    assert.equal(await count(), before);
  });
});

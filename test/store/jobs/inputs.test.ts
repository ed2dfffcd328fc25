import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/upload-buffer.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { deleteInput, findInput } from '../../../src/store/jobs/inputs.ts';
import { insertJob } from '../../../src/store/jobs/jobs.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

describe('the small zips of jobs', () => {
  let books: TestDatabase;
  before(async () => {
    books = await openTestDatabase(['1'], 1000, 1000);
  });
  after(() => books.close());

  async function insert(jobId: string, content: Buffer | null, isToFail = false): Promise<number> {
    const project = await findProject(books.db, 'sys', 'proj');
    assert.ok(project);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const input = { sha256: 'f', bytes: 1, unpackedBytes: 1, content };
    const job = { jobId, owner: '1', project, request, units: 1, input, acceptedAt: 1 };
    return await inTransaction(books.db, async (tx) => {
      const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
      if (isToFail) throw new Error('as it was meant to');
      return id;
    });
  }

  test('come back byte by byte, each for its own job, until they are removed', async () => {
    const [one, other] = [randomBytes(maxInMemoryBytes), Buffer.from([0, 255, 0x27, 0x5c, 0])];
    const [first, second, file] = [await insert('A-1', one), await insert('A-2', other), await insert('A-3', null)];
    assert.deepEqual(await findInput(books.db, first), one);
    assert.deepEqual(await findInput(books.db, second), other);
    assert.equal(await findInput(books.db, file), undefined);
    for (let times = 0; times < 2; times++) await inTransaction(books.db, (tx) => deleteInput(tx, first));
    assert.equal(await findInput(books.db, first), undefined);
    assert.deepEqual(await findInput(books.db, second), other);
  });

  test('are not there without their job', async () => {
    const count = async () => (await books.db.selectFrom('inputs').select('job').execute()).length;
    const before = await count();
    await assert.rejects(insert('B-1', Buffer.from('zip'), true), /as it was meant to/);
    assert.equal(await count(), before);
  });
});

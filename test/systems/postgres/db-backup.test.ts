import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { connectDatabase } from '../../../src/store/database/database.ts';
import { createMigrator } from '../../../src/store/database/migrations.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { bursarProcess, runBursar } from '../../support/command-line.ts';
import { readOutput, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { submitJob } from '../../support/ledger.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { readAllRows } from '../../support/tables.ts';
import { createZip } from '../../support/zip.ts';

// `bursar db backup` and `restore`: one file format for both databases; backups are taken while the server runs.

let postgres: TestPostgres;
const folder = mkdtempSync(join(tmpdir(), 'bursar-backup-'));
let databaseCount = 0;

before(async () => {
  postgres = await startPostgres({ durable: true });
});
after(async () => {
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the URL of a new, empty database. */
async function newDatabase(kind: Kind): Promise<string> {
  const name = `test_${databaseCount++}`;
  return kind === 'postgres' ? await postgres.database(name) : `sqlite:${join(folder, name, 'bursar.db')}`;
}
const db = (url: string, ...args: string[]) =>
  bursarProcess(['db', ...args], { BURSAR_DATA: folder, BURSAR_DATABASE_URL: url });
async function readRows(url: string) {
  const connection = connectDatabase({ url }, folder);
  return await readAllRows(connection).finally(() => connection.destroy());
}

type Kind = 'sqlite' | 'postgres';
/** The file is the same for both databases: `crash/backup.test.ts` and a test below restore to the kind that was backed up. */
const combinations: [Kind, Kind][] = [
  ['sqlite', 'postgres'],
  ['postgres', 'sqlite'],
];

for (const [from, to] of combinations) {
  describe(`a backup of ${from}, restored to ${to}`, () => {
    const file = join(folder, `${from}-${to}.backup`);
    let source: string;
    let target: string;
    let server: ServerProcess;
    const acceptedBefore: string[] = [];

    before(async () => {
      source = await newDatabase(from);
      target = await newDatabase(to);
      server = await spawnServer({ env: { BURSAR_DATABASE_URL: source } });
    });
    after(() => server.dispose());

    test('is taken while jobs are submitted', async () => {
      const me = createCaller(server.url, server.userToken);
      let stop = false;
      const submit = async () => {
        while (!stop) {
          const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01 });
          assert.equal(status, 201);
          if (!existsSync(`${file}.partial`)) acceptedBefore.push(body.job_id);
          // The jobs run: without a pause they would be hundreds.
          await sleep(50);
        }
      };
      const submitting = [submit(), submit()];
      while (acceptedBefore.length < 10) await sleep(20);
      const beforeBackup = [...acceptedBefore];
      const { code, stdout, stderr } = await db(source, 'backup', file);
      stop = true;
      await Promise.all(submitting);
      assert.deepEqual([code, stderr], [0, ''], stdout);
      assert.match(stdout, /^Backed up to .*: \d+ rows\.\nThe ledger balances: \d+ accounts, \d+ entries\.\n$/);
      acceptedBefore.splice(0, acceptedBefore.length, ...beforeBackup);
    });

    test('has all jobs accepted before it, and a server runs with the restored database', async () => {
      const { code, stdout, stderr } = await db(target, 'restore', file);
      assert.deepEqual([code, stderr], [0, ''], stdout);
      assert.match(stdout, /^Restored from .*: \d+ rows\.\nThe ledger balances: /);
      assert.deepEqual(await readRows(target), await readRows(`sqlite:${file}`));
      const token = server.userToken;
      await server.stop();
      const restored = await spawnServer({ env: { BURSAR_DATABASE_URL: target } });
      try {
        const { body } = await createCaller(restored.url, token).get<Job[]>('/jobs/');
        const restoredIds = new Set(body.map(({ job_id }) => job_id));
        assert.deepEqual(
          acceptedBefore.filter((jobId) => !restoredIds.has(jobId)),
          [],
        );
      } finally {
        await restored.dispose();
      }
    });
  });
}

test('bursar backup of PostgreSQL has the zips of waiting jobs, which run after a restore elsewhere', async () => {
  const { systems, ...shipped } = shippedConfig();
  // The second job of a user waits for the first one.
  const config = { ...shipped, systems: { ...systems, hpc_one: { ...systems.hpc_one, submittedJobsPerUser: 1 } } };
  const source = await spawnServer({ config, env: { BURSAR_DATABASE_URL: await newDatabase('postgres') } });
  const backup = join(folder, 'backup');
  const data = join(folder, 'data');
  const target = await newDatabase('postgres');
  const me = createCaller(source.url, source.userToken);
  let job: Job;
  try {
    await waitForStage(me, await submitJob(me, { command: waitForGoScript, runtime: 0.2 }), 'RUNNING');
    const zip = await createZip({ name: 'waiting\n', content: randomBytes(maxInMemoryBytes) });
    job = await submitJob(me, { command: 'cat name', runtime: 0.1 }, zip);
    assert.match((await runBursar(['backup', backup], source.environment)).stdout, /zips of waiting jobs: 1\)/);
  } finally {
    await source.dispose();
  }
  const { code, stderr } = await bursarProcess(['restore', backup], { BURSAR_DATA: data, BURSAR_DATABASE_URL: target });
  assert.deepEqual([code, stderr], [0, '']);
  const restored = await spawnServer({ data, env: { BURSAR_DATABASE_URL: target } });
  try {
    const end = await createCaller(restored.url, source.userToken).waitUntilFinished(job);
    assert.equal(end.stage, 'SUCCESSFUL');
    assert.equal(readOutput(restored, job), 'waiting\n');
  } finally {
    await restored.dispose();
  }
});

describe('bursar db backup and restore', () => {
  let source: string;
  const file = join(folder, 'good.backup');

  before(async () => {
    source = await newDatabase('sqlite');
    const server = await spawnServer({ env: { BURSAR_DATABASE_URL: source } });
    await server.dispose();
    assert.equal((await db(source, 'backup', file)).code, 0);
  });

  test('refuse to overwrite an existing backup file', async () => {
    const content = readFileSync(file);
    const { code, stderr } = await db(source, 'backup', file);
    assert.equal(code, 1);
    assert.match(stderr, /already exists\. Choose another file name/);
    assert.deepEqual(readFileSync(file), content);
  });

  for (const kind of ['sqlite', 'postgres'] as const) {
    test(`refuse to restore to a ${kind} database that is not empty`, async () => {
      const target = await newDatabase(kind);
      assert.equal((await db(target, 'restore', file)).code, 0);
      const rows = await readRows(target);
      const { code, stderr } = await db(target, 'restore', file);
      assert.equal(code, 1);
      assert.match(stderr, /The target is not empty/);
      assert.deepEqual(await readRows(target), rows);
    });
  }

  test('refuse to restore from a file that is not a backup or does not exist, and leave the target empty', async () => {
    const target = await newDatabase('postgres');
    const textFile = join(folder, 'text.backup');
    writeFileSync(textFile, 'no backup'.repeat(1000));
    for (const [invalidFile, code] of [
      [textFile, 2],
      [join(folder, 'nowhere'), 4],
    ] as const) {
      const result = await db(target, 'restore', invalidFile);
      assert.equal(result.code, code, result.stderr);
    }
    assert.equal((await db(target, 'restore', file)).code, 0, 'the target is still empty');
    assert.deepEqual(
      readdirSync(folder).filter((name) => /partial|restoring/.test(name)),
      [],
      'no temporary files are left',
    );
  });

  test('migrate a backup of an older version to the current schema', async () => {
    const old = join(folder, 'old.backup');
    const connection = connectDatabase({ url: `sqlite:${old}` }, folder);
    await createMigrator(connection).migrateTo('0001-initial-schema');
    await connection.executeQuery(
      (await import('kysely')).CompiledQuery.raw("insert into users (id, role, created_at) values ('7', 'user', 1)"),
    );
    await connection.destroy();
    const target = await newDatabase('postgres');
    const { code, stdout, stderr } = await db(target, 'restore', old);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    const status = JSON.parse((await db(target, 'status', '--json')).stdout);
    assert.deepEqual([status.pending, status.rows.users], [[], 1]);
  });
});

describe('bursar db status and migrate', () => {
  for (const kind of ['sqlite', 'postgres'] as const) {
    test(`show the schema status of a ${kind} database, and migrate it`, async () => {
      const url = await newDatabase(kind);
      const before = await db(url, 'status');
      assert.equal(before.code, 0, before.stderr);
      assert.match(before.stdout, kind === 'sqlite' ? /does not exist yet/ : /pending migrations: 0001-initial-schema/);
      assert.doesNotMatch(before.stdout, /word/, 'no password');
      assert.match((await db(url, 'migrate')).stdout, /^Migrations applied: 0001-initial-schema/);
      assert.equal((await db(url, 'migrate')).stdout, 'The schema is up to date.\n');
      const { stdout } = await db(url, 'status');
      assert.match(stdout, /Schema: +up to date/);
      assert.match(stdout, /users +0/);
    });
  }
});

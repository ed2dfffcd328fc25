// Writes the rows of a database of this version, with jobs in all states, for the test of upgrades. Run it once for each
// migration, before its release: `node scripts/write-upgrade-fixture.ts`.
import { writeFileSync } from 'node:fs';
import Sqlite from 'better-sqlite3';
import { createCaller, type Job } from '../test/support/api.ts';
import { cancelJob, jobPath, waitForGoScript, waitForStage } from '../test/support/jobs.ts';
import { submitJob } from '../test/support/ledger.ts';
import { startServer } from '../test/support/server.ts';
import { until } from '../test/support/until.ts';
import { registerWebhook, webhookConfig, webhookTuning } from '../test/support/webhooks.ts';
import { createZip } from '../test/support/zip.ts';

const { systems, ...config } = webhookConfig();
const hpc_one = { ...systems.hpc_one, engine: { kind: 'local', cores: 1 }, submittedJobsPerUser: 2 };
const server = await startServer({
  config: { ...config, systems: { ...systems, hpc_one } },
  engine: 'local',
  tuning: webhookTuning,
});
const database = new Sqlite(`${server.data}/bursar.db`, { readonly: true });
try {
  const me = createCaller(server.url, server.userToken);
  await registerWebhook(me, 'http://127.0.0.1:9/', ['job.ended']);
  const grant = { kind: 'top_up', resource: 'time', amount: 60, reason: 'for the audit trail' };
  const admin = createCaller(server.url, server.adminToken);
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'grant' };
  await admin.send('POST', '/admin/grants/hpc_one/proj_hpc_one_01/members/301330/', headers, JSON.stringify(grant));
  const submit = async (title: string, command: string, stage: string, fields = {}): Promise<Job> => {
    const job = await submitJob(me, { title, command, runtime: 0.1, ...fields }, await createZip({ name: title }));
    await waitForStage(me, job, stage);
    return job;
  };
  await submit('succeeded', 'true', 'SUCCESSFUL', { tags: ['fixture'] });
  await submit('failed', 'false', 'FAILED');
  const deleted = await submit('deleted', 'true', 'SUCCESSFUL');
  await me.send('DELETE', jobPath(deleted));
  await submit('running', waitForGoScript, 'RUNNING');
  const queued = await submit('queued', 'true', 'QUEUED');
  const isSubmitted = () => database.prepare("select 1 from jobs where id = ? and state = 'queued'").get(queued.id);
  await until('the second job is submitted', async () => isSubmitted());
  await cancelJob(me, await submit('cancelled', 'true', 'QUEUED'));
  await submit('accepted', 'true', 'QUEUED');
  await server.stop();
  const migrations = database.prepare('select name from kysely_migration order by name desc').pluck();
  const path = new URL(`../test/fixtures/databases/${migrations.get()}.sql`, import.meta.url);
  writeFileSync(path, [...listInserts(database)].join('\n'));
} finally {
  database.close();
  await server.dispose();
}

/** In the order in which the tables were created, so that every row follows those that it refers to. */
function* listInserts(database: Sqlite.Database): Iterable<string> {
  const tables = database
    .prepare(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite%' and name not like 'kysely%'",
    )
    .pluck();
  for (const table of tables.all()) {
    for (const row of database.prepare(`select * from ${table} order by rowid`).all() as Record<string, unknown>[]) {
      const columns = Object.keys(row).filter((column) => row[column] !== null);
      yield `insert into ${table} (${columns.join(', ')}) values (${columns.map((name) => quote(row[name])).join(', ')})`;
    }
  }
}

function quote(value: unknown): string {
  if (Buffer.isBuffer(value)) return `x'${value.toString('hex')}'`;
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
}

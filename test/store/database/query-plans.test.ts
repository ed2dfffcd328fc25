import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { sql } from 'kysely';
import pg from 'pg';
import { fillDatabase } from '../../../bench/fill.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { syncProjects } from '../../../src/services/identity/enrolment.ts';
import { openDatabase } from '../../../src/store/database/database.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { formFields } from '../../support/browser.ts';
import { prepareDataFolder } from '../../support/data-folder.ts';
import { databaseSettings } from '../../support/database.ts';
import { openEventStream } from '../../support/event-stream.ts';
import { cancelJob, jobPath, submitShellLine, waitForGoScript } from '../../support/jobs.ts';
import { explainOnPostgres, explainOnSqlite, recordDrivers } from '../../support/query-plans.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { signIn } from '../../support/sign-in.ts';
import { createToken } from '../../support/tokens.ts';
import { startEndpoint } from '../../support/webhook-endpoint.ts';
import { sendJson, webhookConfig, webhookTuning } from '../../support/webhooks.ts';

// The statements that a server really runs, for requests and in its workers, on a database with many ended jobs.

const filled = { jobs: 10_000, users: 500 };
/** The rows of a table (SQLite) or pages (PostgreSQL) that a statement may read. A user has 20 jobs and 80 events. */
const maxRead = { sqlite: 200, postgres: 250 };

/** Reads that may be longer, by statement or plan, and why. On SQLite the plan does not show that a read ends early. */
const exceptions: readonly [pattern: RegExp, reason: string][] = [
  [/^delete from "idempotency" where "claimed_by" is not null/, 'once, at the start'],
  [/from (pg_class|"pg_catalog")/, 'of the schema, once, at the start'],
  [/join projects on projects\.auto_join = 1/, 'once, at the start'],
  [/^select "id" from "users" order by "id"/, 'by this test, at the start'],
  [/^select "id" from "users" limit/, 'reads one row'],
  [
    /^select sum\(entries\.|^select "entries"\."id",/,
    'a statement: reads only the accounts of a user, the pools are longer',
  ],
  [/from periods cross join accounts/, 'reads only the accounts of projects whose period has ended'],
  [/from "monthly_usage" .* limit/, 'of all users: in the order of the index, up to the limit'],
  [/SEARCH idempotency USING INDEX idempotency_by_age/, 'deletes the rows that it reads'],
  [/INDEX (sessions|sign_in_codes|sign_in_attempts|device_requests)_by_expiry/, 'deletes the rows that it reads'],
  [/SEARCH (jobs|events) USING INDEX (jobs_to_announce|events_by_age)/, 'in the order of the index, up to the limit'],
  [/INDEX tokens_to_announce \(expires_at>\? AND expires_at<\?\)/, 'reads only the tokens that end within a week'],
  [/^insert into "webhooks"/, 'reads one row, for the foreign key'],
  [/^select "deliveries"\.\*.* order by "deliveries"\."id" desc limit/, 'in the order of the index, up to the limit'],
  [/as "tagged_request" from "jobs" where "jobs"\."id" </, 'in the order of the table, up to the limit'],
  [/SCAN audit USING INDEX audit_by_time/, 'in the order of the index, up to the limit'],
  [/COVERING INDEX jobs_by_job_id/, 'up to the limit'],
  [/COVERING INDEX jobs_by_acceptance/, 'the first entry of the index, and those of a minute'],
  [/^select sum\("jobs_version"\)/, 'lists of administrators: the versions of all users'],
  [
    /from "jobs" where ("jobs"."hpc" = (\?|\$\d) and )?"jobs"."id" > (\?|\$\d) order by "jobs"."id" limit/,
    'lists of administrators: in the order of an index, up to the limit',
  ],
];

/** Fills the tables that grow with the requests of users, too. */
async function insertOtherRows(db: Db): Promise<void> {
  await sql`insert into job_tags (tag, job, owner) select 'common', id, owner from jobs`.execute(db);
  await sql`insert into idempotency (user_id, key, request_hash, response, at)
    select owner, 'key-' || id, '', '{}', ${Date.now()} from jobs`.execute(db);
  await sql`insert into audit (actor, action, subject, details, at, hash)
    select owner, 'test', '', '{}', accepted_at, '' from jobs`.execute(db);
  await sql`insert into tokens (user_id, hash, name, scopes, created_at, expires_at)
    select owner, 'hash-' || id, '', '', accepted_at, accepted_at from jobs`.execute(db);
  const later = Date.now() + 3_600_000;
  await sql`insert into sessions (user_id, hash, created_at, last_used_at, expires_at, address, user_agent)
    select owner, 'hash-' || id, 0, 0, ${later}, '', '' from jobs`.execute(db);
  await sql`insert into sign_in_codes (hash, user_id, created_at, expires_at)
    select 'hash-' || id, owner, 0, ${later} from jobs`.execute(db);
  await sql`insert into sign_in_attempts (hash, issuer, state, nonce, code_verifier, return_to, expires_at)
    select 'hash-' || id, '', '', '', '', '', ${later} from jobs`.execute(db);
  await sql`insert into device_requests (device_hash, user_code_hash, client_name, scopes, address, created_at, expires_at,
      interval_seconds, last_polled_at, state)
    select 'hash-' || id, 'hash-' || id, '', '', '', 0, ${later}, 5, 0, 'pending' from jobs`.execute(db);
  await sql`insert into webhooks (user_id, url, description, generation, key_id, former_until, created_at, failures, pause_until)
    select id, 'http://127.0.0.1:1/', '', 1, '', 0, 0, 0, 0 from users`.execute(db);
  await sql`insert into subscriptions (webhook_id, kind) select id, 'job.expiring' from webhooks`.execute(db);
  await sql`insert into deliveries (webhook_id, event_id, state, created_at, due_at, tries, lease_until)
    select webhooks.id, events.id, 'delivered', at, at, 1, 0 from events
    join webhooks on webhooks.user_id = events.user_id where kind = 'job.ended'`.execute(db);
}

/** Uses the server like a user and an administrator. */
async function useServer(url: string, token: string, adminToken: string, cleanups: (() => unknown)[]): Promise<void> {
  const me = createCaller(url, token);
  const admin = createCaller(url, adminToken);
  const endpoint = await startEndpoint();
  cleanups.push(endpoint.close);
  const stream = await openEventStream(url, token);
  cleanups.push(stream.disconnect);
  const webhook = await sendJson<{ id: number }>(me, 'POST', '/webhooks/', { url: endpoint.url, events: ['*'] });
  const ended = await runJobs(me);
  const paths = [
    ...['/jobs/', '/jobs/hpc_one/', '/jobs/hpc_one/proj_hpc_one_01/?limit=5', '/jobs/?limit=5&terminal=false'],
    ...[
      '/jobs/?failed=true',
      '/jobs/?stage=RUNNING',
      '/jobs/?title=simulation%207',
      '/jobs/?since=2020-01-01T00:00:00Z',
    ],
    ...['/job-summaries/?limit=5', '/job-summaries/?terminal=false&hpc=hpc_one', '/job-summaries/?tag=common&limit=5'],
    ...[`/job-summaries/?job_id=${ended.job_id.slice(0, 8)}`, '/job-summaries/?job_id=AB&search=a&failed=true'],
    ...[
      '/jobs/?tag=common&limit=5',
      '/quotas/',
      '/quotas/hpc_one/',
      '/quotas/hpc_one/proj_hpc_one_01/',
      '/usage/',
      '/accounts/',
    ],
    ...[jobPath(ended), `${jobPath(ended)}timeline/`, '/hpc/', '/events/?after=0&limit=5', '/webhooks/'],
    ...[`/webhooks/${webhook.body.id}/`, `/webhooks/${webhook.body.id}/deliveries/?limit=5`],
    ...['/quotas/hpc_one/proj_hpc_one_01/statement/', '/readyz', '/metrics'],
  ];
  for (const path of paths) assert.equal((await me.get(path)).status, 200, path);
  const adminPaths = [
    ...['/admin/jobs/?limit=5', '/admin/jobs/?limit=5&terminal=false', '/admin/jobs/?limit=5&hpc=hpc_one'],
    ...[`/admin/jobs/?limit=5&user_id=${ended.owner}`, '/admin/usage/', `/admin/usage/${ended.owner}/`],
    `/admin/job-summaries/?job_id=${ended.job_id.slice(0, 8)}`,
    ...['/admin/job-summaries/?limit=5', `/admin/job-summaries/?user_id=${ended.owner}&limit=5`],
    ...[
      '/admin/systems/',
      '/admin/audit/?limit=5',
      `/admin/audit/?limit=5&actor=${ended.owner}`,
      `/admin/accounts/${ended.owner}/`,
      `/admin/quotas/${ended.owner}/`,
    ],
  ];
  for (const path of adminPaths) assert.equal((await admin.get(path)).status, 200, path);
  await endpoint.waitForRequests(4);
  await stream.waitForEvents(4);
}

/** Signs in and out with a browser, and confirms the code of a program. */
async function useBrowser(server: TestServer, userId: string): Promise<void> {
  const browser = await signIn(server, userId);
  const started = JSON.parse((await browser.submit('/oauth/device/', {})).text);
  const page = await browser.get(started.verification_uri_complete);
  const confirmed = await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
  assert.equal(confirmed.status, 200, confirmed.text);
  const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: started.device_code };
  assert.equal((await browser.submit('/oauth/token/', grant)).status, 200);
  browser.cookies.set('bursar_sign_in', { name: 'bursar_sign_in', value: 'unknown' });
  assert.equal((await browser.get('/sign-in/callback/')).status, 401);
  assert.equal((await browser.get('/me/sessions/')).status, 200);
  assert.equal((await browser.script('POST', '/sign-out/')).status, 200);
}

/** Runs one job to its end, twice the same request, and cancels and deletes another one. */
async function runJobs(me: Caller): Promise<Job> {
  const payload = JSON.stringify({ command: 'true', runtime: 0.1, tags: ['common'] });
  const headers = { 'content-disposition': 'attachment; filename=job.zip', 'idempotency-key': 'the-same-key' };
  const submit = () => me.send('POST', '/jobs/hpc_one/', { payload, ...headers });
  const first = (await submit()).body as Job;
  assert.deepEqual((await submit()).body, first);
  const { body: second } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript);
  await cancelJob(me, second);
  assert.equal((await me.send('DELETE', jobPath(second))).status, 200);
  return await me.waitUntilFinished(first);
}

describe('query plans', () => {
  let data: string;
  let statements: Map<string, readonly unknown[]>;
  const cleanups: (() => unknown)[] = [];

  before(async () => {
    const config = webhookConfig();
    for (const { projects } of Object.values(config.systems))
      for (const project of projects) project.retentionDays = 30;
    const { environment, ...folder } = await prepareDataFolder({ config });
    data = folder.data;
    const db = await openDatabase(databaseSettings(data), data);
    await syncProjects(db, loadConfig(environment), 1);
    const [user] = await fillDatabase(db, filled);
    await insertOtherRows(db);
    if (db.backend.dialect.name === 'postgres') await sql`analyze`.execute(db);
    const adminToken = await createToken(db, '1', { admin: true });
    await db.destroy();

    const recorder = recordDrivers();
    const server = await startServer({ data, config, tuning: webhookTuning });
    cleanups.push(server.dispose);
    await useServer(server.url, user?.token ?? '', adminToken, cleanups);
    await useBrowser(server, user?.id ?? '');
    recorder.stop();
    statements = recorder.statements;
    await server.stop();
  });
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  test('no statement of requests and workers scans a table', async () => {
    const { url } = databaseSettings(data);
    const scans: string[] = [];
    const isPostgres = url.startsWith('postgres');
    const client = new pg.Client(isPostgres ? url : {});
    if (isPostgres) await client.connect();
    const database = isPostgres ? null : new Sqlite(join(data, 'bursar.db'));
    for (const [text, values] of statements) {
      if (!/^\s*(select|insert|update|delete|with)\b/i.test(text)) continue;
      const reads = database === null ? await explainOnPostgres(client, text, values) : explainOnSqlite(database, text);
      const max = maxRead[database === null ? 'postgres' : 'sqlite'];
      for (const { plan, amount } of reads) {
        const isAllowed = exceptions.some(([pattern]) => pattern.test(text) || pattern.test(plan));
        if (amount > max && !isAllowed) scans.push(`${text}\n  reads ${amount}: ${plan}`);
      }
    }
    if (isPostgres) await client.end();
    database?.close();
    assert.ok(statements.size > 100, `only ${statements.size} statements were recorded`);
    assert.deepEqual(scans, []);
  });
});

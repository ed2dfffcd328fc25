import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { temporaryFolder } from '../../files/temporary.ts';
import { type ApiResponse, type Caller, createCaller } from '../../support/api.ts';
import { hideBubblewrap } from '../../support/bubblewrap.ts';
import { bursarProcess, runFile } from '../../support/command-line.ts';
import { openEventStream } from '../../support/event-stream.ts';
import { jobPath, requestCancel } from '../../support/jobs.ts';
import { waitForLog } from '../../support/logs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ServerProcess, type ServerProcessOptions, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { sendJson } from '../../support/webhooks.ts';

describe('several instances on one PostgreSQL', () => {
  const data = mkdtempSync(join(tmpdir(), 'bursar-several-'));
  const servers: ServerProcess[] = [];
  let postgres: TestPostgres;
  let url: string;

  const config = shippedConfig();
  const tuning = {
    /** Polls and heartbeats are off in effect, so that what happens on other instances arrives by LISTEN/NOTIFY only. */
    ...{ eventIntervalMs: 3_600_000, heartbeatIntervalMs: 3_600_000 },
    /** A slow holder keeps its leases. */
    leaseMs: 600_000,
  };

  async function start(role: NonNullable<ServerProcessOptions['role']>): Promise<ServerProcess> {
    const server = await spawnServer({ data, role, config, tuning, env: { BURSAR_DATABASE_URL: url } });
    servers.push(server);
    return server;
  }
  const findHolder = async (hpc: string) => {
    const [row] = await postgres.query<{ holder: string }>(
      'bursar',
      "select holder from leases where name = 'system ' || $1 and expires_at > 0",
      [hpc],
    );
    return row?.holder;
  };
  const holdsSystem = (server: ServerProcess) => async () => {
    const holder = await findHolder('hpc_one');
    return holder?.includes(`/${server.process.pid}/`) || undefined;
  };

  before(async () => {
    postgres = await startPostgres();
    url = await postgres.database('bursar');
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await postgres.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    rmSync(`${data}.yaml`, { force: true });
  });

  test('a worker runs a job that an api instance accepted, and its events reach clients of the api instance', async () => {
    const api = await start('api');
    const worker = await start('worker');
    const me = createCaller(api.url, api.userToken);
    await until('the worker holds the lease of the system', holdsSystem(worker));
    const stream = await fetch(`${api.url}/events/?after=latest`, {
      headers: { authorization: `Bearer ${api.userToken}`, accept: 'text/event-stream' },
      signal: AbortSignal.timeout(120_000),
    });
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(status, 201);
    let received = '';
    for await (const chunk of stream.body ?? []) {
      received += Buffer.from(chunk).toString();
      if (received.includes('event: job.ended')) break;
    }
    assert.match(received, /event: job\.accepted.*event: job\.queued.*event: job\.ended/s);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
  });

  test('a worker serves health checks and metrics only', async () => {
    const [api, worker] = servers;
    assert.ok(api && worker);
    const me = createCaller(worker.url, api.userToken);
    assert.equal((await me.get('/jobs/')).status, 404);
    assert.equal((await me.get('/livez')).status, 200);
    assert.equal((await me.get('/readyz')).status, 200);
    assert.match((await me.get('/metrics')).text, /bursar_/);
  });

  test('an api instance needs no bubblewrap, and tells what the workers ensure', async (t) => {
    const env = { BURSAR_DATABASE_URL: url, PATH: hideBubblewrap(await temporaryFolder(t)) };
    const systems = Object.entries(config.systems).map(([name, system]) =>
      name === 'hpc_one' ? [name, { ...system, isolation: 'bubblewrap' }] : [name, system],
    );
    const api = await spawnServer({
      data,
      role: 'api',
      config: { ...config, systems: Object.fromEntries(systems) },
      env,
    });
    t.after(() => api.stop());
    const { body } = await createCaller(api.url, servers[0]?.userToken ?? '').get<{ isolation: string }[]>('/hpc/');
    assert.deepEqual(
      body.map(({ isolation }) => isolation),
      ['bubblewrap', 'none'],
    );
    await waitForLog(
      api,
      /"hpc":"hpc_two","reason":"isolation: auto isolates jobs only on a host where bubblewrap works/,
    );
  });

  test('another instance takes over the system of a killed worker', async () => {
    const [api, worker] = servers;
    assert.ok(api && worker);
    const next = await start('all');
    assert.equal(await holdsSystem(next)(), undefined);
    await worker.kill();
    assert.equal(await holdsSystem(next)(), undefined);
    await postgres.query('bursar', 'update leases set expires_at = 1 where expires_at > 0');
    await until('the next instance holds the lease of the system', holdsSystem(next));
    const me = createCaller(api.url, api.userToken);
    const { body } = await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
  });

  test('a job that two instances cancel and delete ends once and is deleted once', async () => {
    const [api, , all] = servers;
    assert.ok(api && all);
    const callers = [api, all].map(({ url: base }) => createCaller(base, api.userToken));
    const [me] = callers;
    assert.ok(me);
    const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'sleep 600' });
    const fromBoth = async (send: (caller: Caller) => Promise<ApiResponse>) => {
      const responses = await Promise.all([...callers, ...callers, ...callers].map(send));
      return [...new Set(responses.map(({ status }) => status))];
    };
    assert.ok((await fromBoth((caller) => requestCancel(caller, job))).every((status) => [200, 202].includes(status)));
    assert.equal((await me.waitUntilFinished(job)).stage, 'CANCELED');
    assert.deepEqual(await fromBoth((caller) => requestCancel(caller, job)), [200]);
    assert.deepEqual(await fromBoth((caller) => caller.send('DELETE', jobPath(job))), [200]);
    const { body } = await me.get<{ entries: { type: string }[] }>(`${jobPath(job)}timeline/`);
    const types = body.entries.map(({ type }) => type).filter((type) => /ended|deleted/.test(type));
    assert.deepEqual(types, ['job.ended', 'job.deleted']);
  });

  test('a user who is disabled on one instance loses the open streams on the other one', async () => {
    const [api, , all] = servers;
    assert.ok(api && all);
    const token = await api.token('303401');
    const stream = await openEventStream(all.url, token);
    assert.equal(stream.status, 200);
    const admin = createCaller(api.url, api.adminToken);
    const body = { reason: 'because of a test' };
    assert.equal((await sendJson(admin, 'POST', '/admin/users/303401/disable/', body)).status, 200);
    await stream.closed;
    assert.equal((await createCaller(all.url, token).get('/jobs/')).status, 403);
  });

  test('an instance that stops releases its systems at once', async () => {
    const [, , first] = servers;
    assert.ok(first);
    const second = await start('worker');
    assert.equal(await first.stop(), 0);
    await until('the second instance holds the lease of the system', holdsSystem(second));
  });

  test('bursar doctor detects a data folder that is not shared by all instances', async () => {
    const other = mkdtempSync(join(tmpdir(), 'bursar-other-'));
    const env = { BURSAR_DATABASE_URL: url };
    const shared = await bursarProcess(['doctor', '--no-canary'], { ...env, BURSAR_DATA: data });
    assert.match(shared.stdout, /✔ the data folder is shared by all instances/);
    const { hostname, port, pathname, password } = new URL(url);
    const place = `PostgreSQL on ${hostname}, port ${port}, database ${pathname.slice(1)}`;
    assert.ok(shared.stdout.includes(`✔ the database can be opened and written: ${place}\n`), shared.stdout);
    assert.ok(password === '' || !shared.stdout.includes(password));
    const nobody = url.replace(/:\d+\//, ':1/');
    const down = await bursarProcess(['doctor', '--no-canary'], { BURSAR_DATABASE_URL: nobody, BURSAR_DATA: data });
    assert.match(down.stdout, /✖ the database can be opened and written: .*\n {6}→ Check that PostgreSQL runs there/);
    const { code, stdout } = await bursarProcess(['doctor', '--no-canary'], { ...env, BURSAR_DATA: other });
    assert.equal(code, 1);
    assert.match(stdout, /✖ the data folder is shared by all instances: .*\n {6}→ Mount the data folder/);
    rmSync(other, { recursive: true, force: true });
  });

  test('roles are rejected with SQLite, with a reference to the documentation', async () => {
    const program = new URL('../../../bin/bursar.mjs', import.meta.url).pathname;
    const folder = mkdtempSync(join(tmpdir(), 'bursar-alone-'));
    const env = { ...process.env, BURSAR_DATA: folder, BURSAR_PORT: '0' };
    const starting = runFile(process.execPath, [program, 'serve', '--role', 'worker'], { env });
    await assert.rejects(starting, ({ stderr }: { stderr: string }) => /docs\/scaling\.md/.test(stderr));
    rmSync(folder, { recursive: true, force: true });
  });
});

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import { createCaller, type Job } from '../../support/api.ts';
import { createBrowserClient, formFields } from '../../support/browser.ts';
import { bursarProcess } from '../../support/command-line.ts';
import { waitForLog } from '../../support/logs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

let server: ServerProcess;
before(async () => {
  server = await spawnServer();
});
after(() => server.dispose());

/** Root may write to every folder, unless it lacks this capability. */
const withoutOverride =
  process.getuid?.() === 0 ? ['setpriv', '--inh-caps=-dac_override', '--bounding-set=-dac_override'] : [];

function newFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }));
  return folder;
}

test('the first start prints the URL and a token for each of its two users', async () => {
  assert.match(server.stdout(), /^Bursar \d+\.\d+\.\d+ serves http:\/\/127\.0\.0\.1:\d+ /);
  const admin = createCaller(server.url, server.adminToken);
  const user = createCaller(server.url, server.userToken);
  assert.equal((await admin.get('/admin/quotas/301330/')).status, 200);
  assert.equal((await user.get('/admin/quotas/301330/')).status, 403);
  assert.equal((await user.get('/quotas/')).status, 200);
});

test('a first start with a configuration of its own creates no user, and says how to create one', async (t) => {
  const own = await spawnServer({ config: shippedConfig() });
  t.after(() => own.dispose());
  assert.match(own.stdout(), /There are no users yet\./);
  assert.doesNotMatch(own.stdout(), /bursar_|300001|301330/);
  const [, line = ''] = /bursar.* (token create .*)/.exec(own.stdout()) ?? [];
  const { stdout: token } = await own.bursar(...line.split(' '));
  const admin = createCaller(own.url, token.trim());
  assert.equal((await admin.get('/admin/users/')).status, 200);
  const { body: me } = await admin.get<{ user: string; expires_at: string | null }>('/me/');
  assert.deepEqual([me.user, me.expires_at === null], ['1', false]);
});

test('the first start, and "user sign-in-link", print links to sign in with a browser', async () => {
  const links = server.stdout().match(/http:\S+\/sign-in\/\?code=bursar_code_[\w-]{43}$/gm) ?? [];
  const { stdout } = await server.bursar('user', 'sign-in-link', '--user', '301330');
  const { pathname, search } = new URL(stdout);
  const users = [];
  for (const link of [...links, server.url + pathname + search]) {
    const browser = createBrowserClient(server.url);
    const page = await browser.get(link);
    assert.equal((await browser.submit('/sign-in/', formFields(page.text))).status, 303, page.text);
    users.push(JSON.parse((await browser.get('/me/')).text).user);
  }
  assert.deepEqual(users, ['300001', '301330', '301330']);
  await assert.rejects(server.bursar('user', 'sign-in-link', '--user', '309999'), { code: 4 });
});

test('a data folder that others can enter is closed to them, and its jobs still run', async (t) => {
  const data = newFolder(t);
  chmodSync(data, 0o755);
  const opened = await spawnServer({ data });
  t.after(() => opened.stop());
  await waitForLog(opened, /data folder was open to other users/);
  const user = createCaller(opened.url, opened.userToken);
  const { body } = await user.submit(
    '/jobs/hpc_one/',
    { command: 'sh run.sh; umask' },
    await createZip({ 'run.sh': 'exit' }),
  );
  assert.equal((await user.waitUntilFinished(body)).stage, 'SUCCESSFUL');
  for (const name of [
    '',
    'bursar.db',
    'bursar.db-wal',
    'spool',
    'workspaces',
    `workspaces/${body.job_id}/files/run.sh`,
  ]) {
    const path = join(data, name);
    if (existsSync(path)) assert.equal(statSync(path).mode & 0o077, 0, name);
  }
});

test('the log goes to standard error as one JSON object a line and never contains a token', async () => {
  const caller = createCaller(server.url, server.userToken);
  await caller.get('/jobs/');
  await caller.get(`/jobs/${server.userToken}/?token=${server.userToken}`);
  await caller.submit('/jobs/hpc_one/', { command: `echo ${server.userToken}`, nonsense: server.userToken });
  const log = await until('the requests are in the log', () => {
    const text = server.log();
    return (text.match(/"request served"/g) ?? []).length > 2 && text.endsWith('\n') ? text : undefined;
  });
  for (const line of log.trimEnd().split('\n')) assert.equal(typeof JSON.parse(line).msg, 'string', line);
  assert.ok(!log.includes(server.userToken) && !log.includes(server.userToken.slice(7)));
  assert.ok(!log.includes(server.adminToken.slice(7)));
});

test('a second server on the same data folder exits with 5, and the first one keeps running', async () => {
  const settings = { BURSAR_DATA: server.data, BURSAR_PORT: '0' };
  const { code, stdout, stderr } = await bursarProcess(['serve'], settings);
  assert.deepEqual([code, stdout], [5, '']);
  assert.match(stderr, /Another Bursar server uses .*BURSAR_DATA/);
  assert.ok(stderr.includes(server.data));
  assert.equal((await createCaller(server.url, server.userToken).get('/jobs/')).status, 200);
});

test('a port that is already in use exits with 3 and names BURSAR_PORT in one line', async (t) => {
  const data = newFolder(t);
  const { port } = new URL(server.url);
  const { code, stdout, stderr } = await bursarProcess(['serve'], { BURSAR_DATA: data, BURSAR_PORT: port });
  assert.deepEqual([code, stdout], [3, '']);
  assert.match(stderr, new RegExp(`^Port ${port} is already in use\\. .*BURSAR_PORT`, 'm'));
  assert.doesNotMatch(stderr, /^\s+at |EADDRINUSE/m, 'a stack trace');
});

test('after a failed start, the next start on the same folder is a first start and prints tokens', async (t) => {
  const data = newFolder(t);
  await bursarProcess(['serve'], { BURSAR_DATA: data, BURSAR_PORT: new URL(server.url).port });
  const later = await spawnServer({ data });
  t.after(() => later.stop());
  assert.equal((await createCaller(later.url, later.userToken).get('/jobs/')).status, 200);
});

test('an address that does not belong to this host exits with 3', async (t) => {
  const config = join(newFolder(t), 'config.json');
  writeFileSync(config, JSON.stringify(networkConfig()));
  const settings = { BURSAR_DATA: newFolder(t), BURSAR_HOST: '192.0.2.1', BURSAR_PORT: '0', BURSAR_CONFIG: config };
  const { code, stderr } = await bursarProcess(['serve'], settings);
  assert.equal(code, 3);
  assert.match(stderr, /^Cannot listen on 192\.0\.2\.1/m);
});

/** The shipped configuration, with local engines that accept jobs from the network. */
function networkConfig() {
  const config = parse(readFileSync(new URL('../../../config/bursar.yaml', import.meta.url), 'utf8'));
  for (const name of ['hpc_one', 'hpc_two']) config.systems[name].engine.acceptJobsFromTheNetwork = true;
  return config;
}

test('a host other than loopback exits with 3 and creates no database', async (t) => {
  const data = join(newFolder(t), 'new');
  const { code, stdout, stderr } = await bursarProcess(['serve'], {
    BURSAR_DATA: data,
    BURSAR_HOST: '0.0.0.0',
    BURSAR_PORT: '0',
  });
  assert.deepEqual([code, stdout], [3, '']);
  assert.match(stderr, /acceptJobsFromTheNetwork/);
  assert.throws(() => readFileSync(join(data, 'bursar.db')));
});

test('a host other than loopback is accepted if every local engine has acceptJobsFromTheNetwork', async (t) => {
  const server = await spawnServer({ config: networkConfig(), env: { BURSAR_HOST: '0.0.0.0' } });
  t.after(() => server.dispose());
  assert.equal((await createCaller(server.url, server.userToken).get('/jobs/')).status, 200);
  await waitForLog(server, /"level":40.*"host":"0\.0\.0\.0".*without TLS.*reverse proxy/);
});

test('localhost is one address, so that no second server has other limits', async (t) => {
  // On many hosts localhost has both addresses; here it may have one.
  const lookup = join(newFolder(t), 'lookup.cjs');
  writeFileSync(
    lookup,
    `const dns = require('node:dns');
    const { lookup } = dns;
    const both = [{ address: '127.0.0.1', family: 4 }, { address: '::1', family: 6 }];
    dns.lookup = (host, options, done) =>
      host === 'localhost' && options.all ? process.nextTick(done, null, both) : lookup(host, options, done);`,
  );
  const local = await spawnServer({ env: { BURSAR_HOST: 'localhost', NODE_OPTIONS: `--require=${lookup}` } });
  t.after(() => local.dispose());
  const { hostname, port } = new URL(local.url);
  assert.equal(hostname, '127.0.0.1');
  assert.equal((await createCaller(local.url, local.userToken).get('/jobs/')).status, 200);
  await assert.rejects(fetch(`http://[::1]:${port}/livez`));
});

test('a server on loopback does not warn that it has no TLS', () => {
  assert.doesNotMatch(server.log(), /TLS/);
});

test('metrics with a port of their own are served there only, and the message names it', async (t) => {
  const config = { ...networkConfig(), metrics: { port: 0 } };
  const other = await spawnServer({ config });
  t.after(() => other.dispose());
  const [, metricsUrl] = /^Metrics at (http:\/\/127\.0\.0\.1:\d+)\/metrics$/m.exec(other.stdout()) ?? [];
  assert.ok(metricsUrl, other.stdout());
  assert.match((await createCaller(metricsUrl, null).get('/metrics')).text, /^bursar_system_up\{hpc="hpc_one"\} 1$/m);
});

test('an invalid configuration exits with 3', async (t) => {
  const config = join(newFolder(t), 'config.json');
  writeFileSync(config, JSON.stringify({ ...networkConfig(), server: { port: 'x' } }));
  const { code, stdout, stderr } = await bursarProcess(['serve'], { BURSAR_DATA: newFolder(t), BURSAR_CONFIG: config });
  assert.deepEqual([code, stdout], [3, '']);
  assert.match(stderr, /server\.port/);
});

for (const port of ['abc', '65536']) {
  test(`BURSAR_PORT=${port} exits with 3 and one line that says what to set`, async (t) => {
    const { code, stdout, stderr } = await bursarProcess(['serve'], { BURSAR_DATA: newFolder(t), BURSAR_PORT: port });
    assert.deepEqual([code, stdout], [3, '']);
    assert.equal(stderr, `BURSAR_PORT is "${port}". Set it to a port: a number from 0 to 65535.\n`);
  });
}

describe('a data folder that cannot be written to', { concurrency: 2 }, () => {
  for (const args of [['serve'], ['token', 'create', '--user', '1'], ['db', 'restore', import.meta.filename]]) {
    test(`bursar ${args[0]} exits with 3 and one line that names the folder`, async (t) => {
      const data = newFolder(t);
      chmodSync(data, 0o500);
      const { code, stdout, stderr } = await bursarProcess(
        args,
        { BURSAR_DATA: data, BURSAR_PORT: '0' },
        withoutOverride,
      );
      assert.deepEqual([code, stdout], [3, ''], stderr);
      assert.match(stderr, /^Cannot (write to|open) [^\n]*\n$/);
      assert.ok(stderr.includes(data), stderr);
    });
  }

  test('a database that is not one exits with 3 and one line that names the file', async (t) => {
    const data = newFolder(t);
    writeFileSync(join(data, 'bursar.db'), 'not a database, but long enough to have a header '.repeat(100));
    const { code, stderr } = await bursarProcess(['serve'], { BURSAR_DATA: data, BURSAR_PORT: '0' });
    assert.equal(code, 3, stderr);
    assert.match(stderr, /^Cannot open the database [^\n]*bursar\.db: file is not a database[^\n]*\n$/);
  });
});

test('SIGTERM and SIGINT exit with 0; the next start prints no tokens and serves the same data', async (t) => {
  const first = await spawnServer();
  t.after(() => first.dispose());
  const { adminToken, userToken, data } = first;
  const { body: job } = await createCaller(first.url, userToken).submit('/jobs/hpc_one/', { command: 'true' });
  const endedJob = await createCaller(first.url, userToken).waitUntilFinished(job);
  assert.equal(await first.stop(), 0, first.log());

  const second = await spawnServer({ data });
  assert.doesNotMatch(second.stdout(), /bursar_|token/);
  assert.equal(second.stdout().trimEnd().split('\n').length, 1);
  const caller = createCaller(second.url, userToken);
  assert.deepEqual((await caller.get<Job[]>('/jobs/')).body, [endedJob]);
  assert.equal((await createCaller(second.url, adminToken).get('/admin/quotas/301330/')).status, 200);
  second.process.kill('SIGINT');
  await until('the server has exited', () => second.process.exitCode ?? second.process.signalCode ?? undefined);
  assert.equal(second.process.exitCode, 0, second.log());
});

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { extract } from 'tar';
import { toSafeLine } from '../../../src/cli/operator/support/support-log.ts';
import { createCaller } from '../../support/api.ts';
import { bursarProcess, runBursar } from '../../support/command-line.ts';
import { jobPath } from '../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { createZip } from '../../support/zip.ts';

describe('bursar support-bundle', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-bundle-'));
  const planted = {
    metricsToken: 'planted-metrics-token',
    clientSecret: 'planted-client-secret',
    command: 'planted-command',
    title: 'planted-title',
    file: 'planted-file.sh',
    tokenName: 'planted-token-name',
    webhook: 'planted-webhook',
  };
  const secrets: string[] = Object.values(planted);
  let server: ServerProcess;
  let parts: Map<string, string>;

  before(async () => {
    const provider = { issuer: 'https://login.example.org', audience: 'bursar', clientId: 'bursar' };
    server = await spawnServer({
      config: {
        ...shippedConfig(),
        metrics: { token: planted.metricsToken },
        oidc: [{ ...provider, clientSecret: planted.clientSecret }],
        webhooks: { allowNetworks: ['127.0.0.0/8'], allowHttp: true },
        log: { file: join(folder, 'bursar.log') },
      },
    });
    const user = createCaller(server.url, server.userToken);
    secrets.push(server.userToken, server.adminToken);
    const zip = await createZip({ [planted.file]: `echo ${planted.command}` });
    const request = { command: `sbatch ${planted.file} ${planted.command}`, title: planted.title };
    const { body: job } = await user.submit('/jobs/hpc_one/', request, zip);
    await user.waitUntilFinished(job);
    await user.get(`${jobPath(job).replace('/jobs/', '/files/')}${planted.file}`);
    await user.get(`/jobs/?title=${planted.title}`);
    const subscription = JSON.stringify({ url: `http://127.0.0.1:9/${planted.webhook}`, events: ['job.ended'] });
    const webhook = await user.send('POST', '/webhooks/', { 'content-type': 'application/json' }, subscription);
    const { secret } = JSON.parse(webhook.text) as { secret?: string };
    secrets.push(secret ?? assert.fail(webhook.text));
    await server.bursar('token', 'create', '--user', '301330', '--name', planted.tokenName);
    const out = join(folder, 'bundle.tgz');
    await runBursar(['support-bundle', '--out', out, '--url', server.url], server.environment);
    await extract({ file: out, cwd: folder, strip: 1 });
    parts = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true });
  });
  const part = (name: string) => parts.get(name) ?? assert.fail(`${name} is missing`);

  test('has versions, configuration, database, findings, metrics and log', () => {
    assert.match(part('versions.json'), /"bursar": "\d+\.\d+\.\d+"/);
    assert.match(part('configuration.yaml'), /^ {2}hpc_one:/m);
    const database = JSON.parse(part('database.json'));
    assert.match(database.version, /^(SQLite|PostgreSQL) \d+\.\d+/);
    assert.deepEqual([database.schema.pending, database.rows.jobs, database.ledger.balanced], [[], 1, true]);
    assert.match(part('doctor.json'), /"check": "the database can be opened and written",\s+"ok": true/);
    assert.match(part('metrics.txt'), /^# TYPE bursar_/m);
    assert.match(part('log.ndjson'), /"route":"\/jobs\/:hpc\/".*"msg":"request served"/);
  });

  test('has no secret, no command, title or file name of a user', () => {
    for (const name of parts.keys()) {
      // The archive itself, and the log that it was made from.
      if (name === 'bundle.tgz' || name === 'bursar.log') continue;
      for (const secret of secrets) assert.ok(!part(name).includes(secret), `${secret.slice(0, 12)} in ${name}`);
      assert.doesNotMatch(part(name), /bursar_[\w-]{43}|whsec_/, name);
    }
    // Otherwise the search would prove nothing.
    assert.match(part('bursar.log'), new RegExp(planted.file));
  });

  test('can be read by its owner only, and replaces no file', async () => {
    const file = join(folder, 'bundle.tgz');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    await assert.rejects(runBursar(['support-bundle', '--out', file], server.environment), /already exists/);
  });

  test('is complete without a server, which it says', async () => {
    const out = join(folder, 'second.tgz');
    await runBursar(['support-bundle', '--out', out, '--url', 'http://127.0.0.1:1'], server.environment);
    await extract({ file: out, cwd: folder, strip: 1, filter: (path) => path.endsWith('metrics.txt') });
    assert.match(
      readFileSync(join(folder, 'metrics.txt'), 'utf8'),
      /^Not available: no server answers at http:\/\/127\.0\.0\.1:1/,
    );
  });
});

test('a support bundle reads the metrics with TLS if they have a port of their own and Bursar speaks TLS', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-bundle-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const tls = { certificate: join(folder, 'none.pem'), key: join(folder, 'none.pem') };
  const config = { ...shippedConfig(), server: { tls }, metrics: { port: 1, token: 'planted-metrics-token' } };
  writeFileSync(join(folder, 'bursar.json'), JSON.stringify(config), { mode: 0o600 });
  const settings = { BURSAR_CONFIG: join(folder, 'bursar.json'), BURSAR_DATA: join(folder, 'data') };
  const { code, stderr } = await bursarProcess(['support-bundle', '--out', join(folder, 'bundle.tgz')], settings);
  assert.equal(code, 0, stderr);
  await extract({ file: join(folder, 'bundle.tgz'), cwd: folder, strip: 1 });
  const metrics = readFileSync(join(folder, 'metrics.txt'), 'utf8');
  assert.match(metrics, /^Not available: no server answers at https:\/\/127\.0\.0\.1:1\. /);
});

describe('a line of the log in a support bundle', () => {
  test('keeps events, ids and numbers, and hides all other texts, also within errors', () => {
    const line = {
      level: 50,
      time: 1,
      jobId: 'A1',
      path: '/files/secret.txt',
      route: '/files/:hpc/*',
      err: {
        type: 'Error',
        code: 'ENOENT',
        message: "open 'secret.txt'",
        stack: "Error: open 'secret.txt'\n    at f (a.js:1:2)",
      },
      list: ['secret.txt'],
      msg: 'job dispatch failed, token bursar_abcdefghijklmnopqrstuvwxyz',
    };
    assert.deepEqual(JSON.parse(toSafeLine(JSON.stringify(line))), {
      ...line,
      path: '…',
      err: { type: 'Error', code: 'ENOENT', message: '…', stack: '    at f (a.js:1:2)' },
      list: ['…'],
      msg: 'job dispatch failed, token ***',
    });
    assert.doesNotMatch(toSafeLine('password=secret'), /secret/);
  });
});

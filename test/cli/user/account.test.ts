import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Delivery, Session, Token, Webhook } from '#client';
import { type Caller, createCaller } from '../../support/api.ts';
import { formFields } from '../../support/browser.ts';
import { firstUsers, startServer, type TestServer } from '../../support/server.ts';
import { signIn } from '../../support/sign-in.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import { webhookConfig, webhookTuning } from '../../support/webhooks.ts';
import { createProgramFixture, type ProgramFixture, parseTable } from './program-fixture.ts';

const { user } = firstUsers;

describe('commands about the account', () => {
  let server: TestServer;
  let endpoint: TestEndpoint;
  let me: Caller;
  let bursar: ProgramFixture;
  before(async () => {
    server = await startServer({ config: webhookConfig(), tuning: webhookTuning });
    endpoint = await startEndpoint();
    me = createCaller(server.url, server.userToken);
    bursar = createProgramFixture(server.url, server.userToken);
  });
  after(async () => {
    bursar.dispose();
    await server.dispose();
    await endpoint.close();
  });

  async function refused(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await bursar.run(...args);
    assert.deepEqual([code, stdout], [2, ''], stderr);
    return stderr;
  }

  test('whoami, quota, quote, systems and usage print tables and the objects of the API', async () => {
    for (const [path, ...args] of [
      ['/me/', 'whoami'],
      ['/quotas/', 'quota'],
      ['/hpc/', 'systems'],
      ['/hpc/hpc_two/', 'systems', 'hpc_two'],
      ['/usage/', 'usage'],
      ['/me/tokens/', 'tokens'],
    ] as const) {
      assert.deepEqual(await bursar.json(...args), (await me.get(path)).body);
      for (const outcome of [await bursar.run(...args), await bursar.onTerminal(...args)])
        assert.equal(outcome.code, 0, outcome.stderr);
    }
    assert.match((await bursar.run('whoami')).stdout, new RegExp(`^user\t${user}\nserver\t${server.url}\n`));
    assert.equal(parseTable((await bursar.run('quota', '--system', 'hpc_two')).stdout).length, 2);
    const quote = ['quote', '--system', 'hpc_one', '--command', 'true', '--cores', '4'];
    assert.equal((await bursar.json<{ cost: number }>(...quote)).cost, 4 * 3600);
    assert.equal((await bursar.run(...quote)).code, 0);
    await refused(...quote, '--runtime', 'long');
    assert.equal((await bursar.run('systems', 'hpc_nine')).code, 1);
  });

  test('statement prints all changes as a table, CSV and JSON', async () => {
    const project = 'hpc_one/proj_hpc_one_01';
    const path = '/quotas/hpc_one/proj_hpc_one_01/statement/';
    const rows = parseTable((await bursar.run('statement', project)).stdout);
    assert.deepEqual(
      rows.map(({ kind, change, unit }) => [kind, change, unit]),
      [
        ['grant', '18000000', 'core-seconds'],
        ['grant', '10000000', 'KB'],
      ],
    );
    assert.equal((await bursar.run('statement', project, '--csv')).stdout, (await me.get(`${path}?format=csv`)).text);
    assert.equal((await bursar.json<{ user: string }>('statement', 'proj_hpc_one_01')).user, user);
    assert.match((await bursar.onTerminal('statement', project)).stdout, /18,000,000 core-seconds/);
    assert.equal(parseTable((await bursar.run('statement', project, '--to', '1d')).stdout).length, 0);
    assert.match(await refused('statement', project, '--csv', '--json'), /exclude each other/);
    assert.match(await refused('statement'), /Which project\?\nUse one of: .*hpc_two\/proj_hpc_two_02/);
    assert.match(await refused('statement', 'proj_unknown'), /not the name of one of your projects/);
    assert.match((await bursar.run('usage', '--csv')).stdout, /^\w+,/);
  });

  test('tokens are created, listed and revoked', async () => {
    const options = [
      '--scopes',
      'jobs:read,quotas:read',
      '--system',
      'hpc_one',
      '--project',
      'proj_hpc_one_01',
      '--days',
      '2',
    ];
    const created = await bursar.run('tokens', 'create', 'notebook', ...options);
    assert.equal(created.code, 0, created.stderr);
    const token = created.stdout.trimEnd();
    const [, id = ''] =
      /^Token (\d+) may: jobs:read, quotas:read\. It is not shown again\.\n$/.exec(created.stderr) ?? [];
    assert.equal((await createCaller(server.url, token).get('/jobs/hpc_one/proj_hpc_one_01/')).status, 200);
    const row = parseTable((await bursar.run('tokens')).stdout).find((each) => each.id === id);
    assert.deepEqual([row?.name, row?.state, row?.only_for], ['notebook', 'valid', 'hpc_one/proj_hpc_one_01']);
    assert.match((await bursar.onTerminal('tokens')).stdout, /notebook .*in (1 d|47 h)/);
    const revoked = await bursar.run('tokens', 'revoke', id);
    assert.deepEqual([revoked.code, revoked.stdout, revoked.stderr], [0, '', `Token ${id} is revoked.\n`]);
    assert.equal((await createCaller(server.url, token).get('/me/')).status, 401);
    const second = await bursar.json<Token & { token: string }>('tokens', 'create', 'second');
    assert.match(second.token, /^bursar_/);
    assert.equal((await bursar.json<Token>('tokens', 'revoke', String(second.id))).state, 'revoked');

    await refused('tokens', 'create');
    assert.match(await refused('tokens', 'create', 'x', '--days', 'two'), /--days/);
    const scopes = await bursar.run('tokens', 'create', 'x', '--scopes', 'everything');
    assert.notEqual(scopes.code, 0);
    assert.match(scopes.stderr, /scopes/);
    assert.equal((await bursar.run('tokens', 'revoke', '999999')).code, 1);
  });

  test('sessions are listed and ended', async () => {
    await signIn(server, user);
    await signIn(server, user);
    await signIn(server, user);
    const sessions = await bursar.json<Session[]>('sessions');
    assert.equal(sessions.length, 3);
    const rows = parseTable((await bursar.run('sessions')).stdout);
    assert.deepEqual(
      rows.map(({ id, from }) => [id, from]),
      sessions.map(({ id }) => [String(id), '127.0.0.1']),
    );
    assert.match((await bursar.onTerminal('sessions')).stdout, /Signed in +Last used/);
    const one = await bursar.run('sessions', 'end', String(sessions[0]?.id));
    assert.deepEqual([one.code, one.stderr], [0, '1 session has ended.\n']);
    assert.equal((await bursar.json<Session[]>('sessions', 'end')).length, 2);
    assert.equal((await bursar.onTerminal('sessions')).stderr, 'You are signed in in no browser.\n');
    assert.equal((await bursar.run('sessions', 'end')).stderr, '0 sessions have ended.\n');
    assert.equal((await bursar.run('sessions', 'end', '999999')).code, 1);
  });

  test('webhooks are created, shown, changed, tested, resent and deleted', async () => {
    const created = await bursar.run(
      'webhooks',
      'create',
      endpoint.url,
      '--events',
      'job.ended',
      '--description',
      'mine',
    );
    assert.equal(created.code, 0, created.stderr);
    assert.match(created.stdout, /^\S+\n$/);
    const [webhook] = await bursar.json<Webhook[]>('webhooks');
    const id = String(webhook?.id);
    assert.deepEqual(
      [webhook?.url, webhook?.events, webhook?.description],
      [`${endpoint.url}/`, ['job.ended'], 'mine'],
    );
    const [row] = parseTable((await bursar.run('webhooks')).stdout);
    assert.deepEqual([row?.id, row?.state, row?.description], [id, 'active', 'mine']);
    assert.match((await bursar.run('webhooks', 'show', id)).stdout, new RegExp(`^id\t${id}\nuser\t${user}\n`));
    assert.deepEqual(await bursar.json('webhooks', 'show', id), webhook);

    assert.match(await refused('webhooks', 'change', id), /Nothing would change/);
    assert.equal((await bursar.json<Webhook>('webhooks', 'change', id, '--events', '*', '--enable')).events[0], '*');
    assert.match((await bursar.run('webhooks', 'change', id, '--description', '')).stdout, /description\t\n/);
    const rotated = await bursar.run('webhooks', 'rotate-secret', id);
    assert.notEqual(rotated.stdout, created.stdout);
    assert.match(rotated.stderr, /signs the deliveries/);

    const sent = await bursar.run('webhooks', 'test', id);
    assert.match(sent.stderr, new RegExp(`^Delivery \\d+ is being sent\\. .* bursar webhooks deliveries ${id}\n$`));
    await endpoint.waitForRequests(1);
    const deliveries = await until('the delivery is recorded', async () => {
      const found = await bursar.json<Delivery[]>('webhooks', 'deliveries', id);
      return found[0]?.state === 'delivered' ? found : undefined;
    });
    assert.equal(deliveries.length, 1);
    const [delivery] = parseTable((await bursar.run('webhooks', 'deliveries', id, '--limit', '5')).stdout);
    assert.deepEqual([delivery?.state, delivery?.tries], ['delivered', '1']);
    await refused('webhooks', 'deliveries', id, '--limit', 'all');
    assert.equal((await bursar.json<Delivery>('webhooks', 'resend', id, delivery?.id ?? '')).type, deliveries[0]?.type);
    await endpoint.waitForRequests(2);

    const wrong = await bursar.run('webhooks', 'create', 'ftp://example.org');
    assert.notEqual(wrong.code, 0);
    const deleted = await bursar.run('webhooks', 'delete', id);
    assert.deepEqual([deleted.code, deleted.stderr], [0, `Webhook ${id} is deleted.\n`]);
    assert.equal((await bursar.onTerminal('webhooks')).stderr, 'You have no webhooks.\n');
    assert.equal((await bursar.run('webhooks', 'show', id)).code, 1);
  });

  test('login --web opens the page in the browser of the variable BROWSER, and JSON has the code', async () => {
    const opened = join(bursar.folder, 'opened');
    const browserProgram = join(bursar.folder, 'browser');
    writeFileSync(browserProgram, `#!/bin/sh\necho "$1" > '${opened}.part' && mv '${opened}.part' '${opened}'\n`);
    chmodSync(browserProgram, 0o755);
    const login = createProgramFixture(server.url, '');
    Object.assign(login.env, { BROWSER: browserProgram });
    try {
      const running = login.start('login', '--web', '--json');
      await until('the browser is started', () => (existsSync(opened) ? true : undefined));
      const { user_code: code, verification_uri_complete: address } = JSON.parse(running.stdout());
      assert.equal(readFileSync(opened, 'utf8'), `${address}\n`);
      const browser = await signIn(server, user);
      const page = await browser.get(address);
      assert.ok(page.text.includes(code));
      await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
      const { code: exitCode, stdout, stderr } = await running.ended;
      assert.equal(exitCode, 0, stderr);
      assert.equal(JSON.parse(stdout.split('\n')[1] ?? '').user, user);
      assert.equal((await login.json<{ user: string }>('whoami')).user, user);
      const [profile] = parseTable((await login.run('profiles')).stdout);
      assert.deepEqual([profile?.profile, profile?.current, profile?.user], ['default', '*', user]);
      assert.equal((await login.run('logout')).code, 0);
    } finally {
      login.dispose();
    }
  });
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { createCaller, type Quota } from '../support/api.ts';
import { queryDatabase } from '../support/database.ts';
import { bursar } from '../support/program.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server.dispose());

const token = (...args: string[]) => bursar(['token', ...args], { BURSAR_DATA: server.data });

const tableHeader = ['ID', 'USER', 'NAME', 'ROLE', 'SCOPES', 'LIMIT', 'CREATED', 'EXPIRES', 'USED', 'STATE'];

interface Row {
  id: number;
  user: string;
  name: string;
  role: string;
  scopes: string[];
  limit: string | null;
  created: string;
  expires: string | null;
  state: string;
}

async function list(...options: string[]): Promise<Row[]> {
  const { code, stdout, stderr } = await token('list', '--json', ...options);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

async function create(...options: string[]): Promise<string> {
  const { code, stdout, stderr } = await token('create', ...options);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

/** Act, subject and details of the records of an actor about a user, oldest first. */
async function listAudit(actor: string, user: string): Promise<[string, string, unknown][]> {
  const query =
    "select action, subject, details from audit where actor = ? and subject || '/' like ? || '/%' order by id";
  const rows = await queryDatabase<{ action: string; subject: string; details: string }>(server.data, query, [
    actor,
    user,
  ]);
  return rows.map(({ action, subject, details }) => [action, subject, JSON.parse(details)]);
}

const getStatus = async (secret: string, path = '/quotas/') =>
  (await createCaller(server.url, secret).get(path)).status;

// Every test has its own users.
describe('bursar token', () => {
  test('create prints only the token, to standard output', async () => {
    const { code, stdout, stderr } = await token('create', '--user', '301340');
    assert.equal(code, 0);
    assert.match(stdout, /^bursar_[\w-]{43}\n$/);
    assert.equal(stderr, '');
  });

  test('create makes a token that a running server accepts at once, and gives a new user all quotas', async () => {
    const secret = await create('--user', '301341');
    const { status, body } = await createCaller(server.url, secret).get<Quota[]>('/quotas/');
    assert.equal(status, 200);
    assert.deepEqual(
      body.map(({ user, time_left }) => [user, time_left]),
      Array(3).fill(['301341', 18_000_000]),
    );
  });

  test('create run concurrently for one user makes different valid tokens and grants the quotas once', async () => {
    const secrets = await Promise.all([1, 2, 3].map(() => create('--user', '301342')));
    assert.equal(new Set(secrets).size, 3);
    const quotas = await Promise.all(
      secrets.map(async (secret) => (await createCaller(server.url, secret).get('/quotas/')).text),
    );
    assert.equal(new Set(quotas).size, 1);
    assert.match(quotas[0] ?? '', /"time_left":18000000,"user":"301342"/);
  });

  test('create --admin gives administrator rights to that token only, not to other tokens of the user', async () => {
    const plain = await create('--user', '301345');
    const admin = await create('--user', '301345', '--admin');
    assert.equal(await getStatus(admin, '/admin/quotas/301330/'), 200);
    assert.equal(await getStatus(plain, '/admin/quotas/301330/'), 403);
    const rows = await list('--user', '301345');
    assert.deepEqual(
      rows.map((row) => row.scopes.includes('admin:write')),
      [false, true],
    );
  });

  test('create --name stores the name', async () => {
    await create('--user', '301346', '--name', 'laptop of Zoë');
    assert.deepEqual(
      (await list('--user', '301346')).map(({ name, state, expires }) => ({ name, state, expires })),
      [{ name: 'laptop of Zoë', state: 'valid', expires: null }],
    );
  });

  test('create --expires makes a token that expires after that time', async () => {
    const days = { '30d': 30, '90m': 1.5 / 24, '12h': 0.5, '52w': 364, '1y': 365 };
    await Promise.all(
      Object.keys(days).map(async (duration) => {
        const secret = await create('--user', '301343', '--name', duration, '--expires', duration);
        assert.equal(await getStatus(secret), 200);
      }),
    );
    const lifetimes = (await list('--user', '301343')).map(({ name, created, expires }) => [
      name,
      (Date.parse(expires ?? '') - Date.parse(created)) / 86_400_000,
    ]);
    assert.deepEqual(Object.fromEntries(lifetimes), days);
  });

  test('an expired token gets 401 and is listed as expired', async () => {
    const secret = await create('--user', '301347', '--expires', '1m');
    assert.equal(await getStatus(secret), 200);
    await queryDatabase(server.data, 'update tokens set expires_at = created_at where user_id = ?', ['301347']);
    assert.equal(await getStatus(secret), 401);
    assert.equal((await list('--user', '301347'))[0]?.state, 'expired');
  });

  test('create --expires with an invalid duration exits with 2 and shows the accepted forms', async () => {
    const invalid = ['', '30', '30x', '0d', '-1d', '1234567d'];
    const outcomes = invalid.map((duration) => token('create', '--user', '301348', `--expires=${duration}`));
    for (const [index, { code, stdout, stderr }] of (await Promise.all(outcomes)).entries()) {
      assert.deepEqual([code, stdout], [2, ''], invalid[index]);
      assert.match(stderr, /is not a duration.*30d/);
    }
    assert.deepEqual(await list('--user', '301348'), []);
  });

  test('create --user with an invalid user identifier exits with 2 and explains the format', async () => {
    const invalid = ['', 'alice', '-5', '1'.repeat(21)];
    const outcomes = invalid.map((user) => token('create', `--user=${user}`));
    for (const [index, { code, stdout, stderr }] of (await Promise.all(outcomes)).entries()) {
      assert.deepEqual([code, stdout], [2, ''], invalid[index]);
      assert.match(stderr, /user identifier is a number/);
    }
    assert.ok((await list()).every((row) => /^\d{1,20}$/.test(row.user)));
  });

  test('create --role, --scopes, --hpc and --project make a token that can do that only, with actor and reason', async () => {
    const project = ['--hpc', 'hpc_one', '--project', 'proj_hpc_one_01'];
    const audit = ['--actor', 'night-shift', '--reason', 'nightly report'];
    const secret = await create('--user', '301351', '--scopes', ' jobs:read  quotas:read', ...project, ...audit);
    assert.equal(await getStatus(secret, '/quotas/hpc_one/proj_hpc_one_01/'), 200);
    assert.equal(await getStatus(secret, '/quotas/'), 403);
    assert.equal(await getStatus(secret, '/events/?limit=1&hpc=hpc_one'), 403);
    await create('--user', '301351', '--role', 'auditor', '--actor', 'night-shift');
    const rows = await list('--user', '301351');
    assert.deepEqual(
      rows.map(({ role, scopes, limit }) => [role, scopes.length, limit]),
      [
        ['auditor', 2, 'hpc_one/proj_hpc_one_01'],
        ['auditor', 7, null],
      ],
    );
    const [first, second] = rows.map(({ id }) => id);
    await token('revoke', String(first), '--reason', 'no longer needed', '--actor', 'night-shift');
    const allScopes = 'jobs:read jobs:write quotas:read events:read webhooks:write admin:read admin:write';
    assert.deepEqual(await listAudit('night-shift', '301351'), [
      ['user.create', '301351', { reason: 'nightly report' }],
      ['token.create', `301351/${first}`, { name: '', scopes: 'jobs:read quotas:read', reason: 'nightly report' }],
      ['user.role', '301351', { role: 'auditor' }],
      ['token.create', `301351/${second}`, { name: '', scopes: allScopes }],
      ['token.revoke', `301351/${first}`, { name: '', reason: 'no longer needed' }],
    ]);
  });

  test('create refuses what does not exist, and a role in place of another one, and creates nothing', async () => {
    const wrong: [options: string[], code: number, message: RegExp][] = [
      [['--scopes', 'jobs:read jobs:execute'], 2, /Scopes are some of jobs:read/],
      [['--admin', '--role', 'auditor'], 2, /cannot be used with/],
      [['--project', 'proj_hpc_one_01'], 2, /system of the project/],
      [['--hpc', 'hpc_nine'], 4, /no HPC system/],
    ];
    const outcomes = wrong.map(([options]) => token('create', '--user', '301352', ...options));
    for (const [index, { code, stdout, stderr }] of (await Promise.all(outcomes)).entries()) {
      const [options, expectedCode, message] = wrong[index] ?? [[], 0, /never/];
      assert.deepEqual([code, stdout], [expectedCode, ''], `${options.join(' ')}: ${stderr}`);
      assert.match(stderr, message);
    }
    assert.deepEqual(await list('--user', '301352'), []);
    const { code, stderr } = await token('create', '--user', '300001', '--role', 'auditor');
    assert.deepEqual([code, /has the role administrator.*bursar user role/.test(stderr)], [1, true], stderr);
  });

  test('list prints a line for each token; --user selects the tokens of one user', async () => {
    await create('--user', '301350', '--name', 'first');
    await create('--user', '301350', '--admin');
    const { code, stdout } = await token('list', '--user', '301350');
    assert.equal(code, 0);
    const [header = '', ...lines] = stdout.trimEnd().split('\n');
    assert.deepEqual(header.split(/ +/), tableHeader);
    assert.equal(lines.length, 2);
    assert.match(
      lines[0] ?? '',
      /^\d+ +301350 +first +administrator +jobs:read .*webhooks:write +- +\d{4}-\S+Z +never +never +valid$/,
    );
    assert.match(
      lines[1] ?? '',
      /^\d+ +301350 +- +administrator +jobs:read .*admin:write +- +\d{4}-\S+Z +never +never +valid$/,
    );
    const users = (await list()).map((row) => row.user);
    for (const user of ['300001', '301330', '301350']) assert.ok(users.includes(user));
  });

  test('list --json prints exactly the fields of the table', async () => {
    const [row] = await list('--user', '301330');
    const fields = ['id', 'user', 'name', 'role', 'scopes', 'limit', 'created', 'expires', 'last_used', 'state'];
    assert.deepEqual(Object.keys(row ?? {}), fields);
    assert.equal(typeof row?.id, 'number');
  });

  test('list prints neither tokens nor their hashes', async () => {
    for (const options of [[], ['--json']]) {
      const { stdout } = await token('list', ...options);
      for (const secret of [server.userToken, server.adminToken]) assert.ok(!stdout.includes(secret.slice(7, 20)));
      assert.doesNotMatch(stdout, /bursar_|[0-9a-f]{64}/, 'a token or a hash');
    }
  });

  test('the database contains only hashes of tokens', async () => {
    const rows = JSON.stringify(await queryDatabase(server.data, 'select * from tokens', []));
    for (const secret of [server.userToken, server.adminToken]) assert.ok(!rows.includes(secret.slice(7)));
  });

  test('revoke makes a token invalid at once and leaves the other tokens of the user valid', async () => {
    const [first, second] = [await create('--user', '301354'), await create('--user', '301354')];
    const [row] = await list('--user', '301354');
    for (const _ of ['first', 'repeated, without effect']) {
      const { code, stdout, stderr } = await token(
        'revoke',
        String(row?.id),
        '--reason',
        'lost laptop',
        '--actor',
        'night-shift',
      );
      assert.deepEqual([code, stdout, stderr], [0, `Token ${row?.id} is revoked.\n`, '']);
    }
    assert.deepEqual([await getStatus(first), await getStatus(second)], [401, 200]);
    assert.deepEqual(
      (await list('--user', '301354')).map(({ state }) => state),
      ['revoked', 'valid'],
    );
  });

  test('revoke needs a reason', async () => {
    const { code, stderr } = await token('revoke', '1');
    assert.deepEqual([code, /--reason/.test(stderr)], [2, true]);
  });

  test('revoke with an unknown id exits with 4', async () => {
    const { code, stdout, stderr } = await token('revoke', '999999', '--reason', 'because of a test');
    assert.deepEqual([code, stdout, stderr], [4, '', 'There is no token 999999.\n']);
  });

  test('revoke with an id that is not a number exits with 2', async () => {
    const invalid = ['abc', '1e3', 'bursar_abc'];
    for (const { code, stdout, stderr } of await Promise.all(
      invalid.map((id) => token('revoke', id, '--reason', 'because of a test')),
    )) {
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /number.*token list/);
    }
  });
});

function emptyFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'new');
}

test('token create works before the first start, and the server then accepts the token', async (t) => {
  const data = emptyFolder(t);
  const { code, stdout, stderr } = await bursar(['token', 'create', '--user', '301356'], { BURSAR_DATA: data });
  assert.equal(code, 0, stderr);
  const later = await startServer({ data });
  t.after(() => later.dispose());
  assert.equal((await createCaller(later.url, stdout.trim()).get('/jobs/')).status, 200);
});

test('token list prints an empty list before the first start', async (t) => {
  const { code, stdout } = await bursar(['token', 'list', '--json'], { BURSAR_DATA: emptyFolder(t) });
  assert.deepEqual([code, stdout], [0, '[]\n']);
});

test('token list still works after token create with a very long duration', async (t) => {
  const settings = { BURSAR_DATA: emptyFolder(t) };
  await bursar(['token', 'list'], settings);
  const { code } = await bursar(['token', 'create', '--user', '301349', '--expires', '999999y'], settings);
  assert.ok(code === 0 || code === 2, String(code));
  const { code: listed, stderr } = await bursar(['token', 'list'], settings);
  assert.equal(listed, 0, stderr);
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { callerOf, type Quota } from '../support/api.ts';
import { bursar } from '../support/command-line.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';

// Tokens by the command line, while a server is running on the same data folder.

let server: ServerProcess;
before(async () => {
  server = await spawnServer();
});
after(() => server.dispose());

const token = (...args: string[]) => bursar(['token', ...args], { BURSAR_DATA: server.data });

interface Row {
  id: number;
  user: string;
  name: string;
  admin: boolean;
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

/** Changes the books behind the server's back, for what would take too long to come about by itself. */
function withBooks<T>(use: (books: Sqlite.Database) => T): T {
  const books = new Sqlite(join(server.data, 'bursar.db'), { timeout: 10_000 });
  try {
    return use(books);
  } finally {
    books.close();
  }
}

const statusOf = async (secret: string, path = '/quotas/') => (await callerOf(server.url, secret).get(path)).status;

// Every test has users of its own, so that they can run side by side.
describe('token', { concurrency: 3 }, () => {
  test('create prints the token alone on standard output', async () => {
    const { code, stdout, stderr } = await token('create', '--user', '301340');
    assert.equal(code, 0);
    assert.match(stdout, /^bursar_[\w-]{43}\n$/);
    assert.equal(stderr, '');
  });

  test('a token is usable at once, while the server runs, and its new user has all quotas', async () => {
    const secret = await create('--user', '301341');
    const { status, body } = await callerOf(server.url, secret).get<Quota[]>('/quotas/');
    assert.equal(status, 200);
    assert.deepEqual(
      body.map(({ user, time_left }) => [user, time_left]),
      Array(3).fill(['301341', 18_000_000]),
    );
  });

  test('tokens of one user that are created at the same time are different and good, and grant once', async () => {
    const secrets = await Promise.all([1, 2, 3].map(() => create('--user', '301342')));
    assert.equal(new Set(secrets).size, 3);
    const quotas = await Promise.all(
      secrets.map(async (secret) => (await callerOf(server.url, secret).get('/quotas/')).text),
    );
    assert.equal(new Set(quotas).size, 1);
    assert.match(quotas[0] ?? '', /"time_left":18000000,"user":"301342"/);
  });

  test('create --admin makes an administrator; a token of the same user without it is not one', async () => {
    const plain = await create('--user', '301345');
    const admin = await create('--user', '301345', '--admin');
    assert.equal(await statusOf(admin, '/admin/quotas/301330/'), 200);
    assert.equal(await statusOf(plain, '/admin/quotas/301330/'), 403);
    const rows = await list('--user', '301345');
    assert.deepEqual(
      rows.map((row) => row.admin),
      [false, true],
    );
  });

  test('create --name gives it a name to recognise it by', async () => {
    await create('--user', '301346', '--name', 'laptop of Zoë');
    assert.deepEqual(
      (await list('--user', '301346')).map(({ name, state, expires }) => ({ name, state, expires })),
      [{ name: 'laptop of Zoë', state: 'valid', expires: null }],
    );
  });

  test('create --expires: it is valid now, and for so long from its creation', async () => {
    const days = { '30d': 30, '90m': 1.5 / 24, '12h': 0.5, '52w': 364, '1y': 365 };
    await Promise.all(
      Object.keys(days).map(async (duration) => {
        const secret = await create('--user', '301343', '--name', duration, '--expires', duration);
        assert.equal(await statusOf(secret), 200);
      }),
    );
    const lifetimes = (await list('--user', '301343')).map(({ name, created, expires }) => [
      name,
      (Date.parse(expires ?? '') - Date.parse(created)) / 86_400_000,
    ]);
    assert.deepEqual(Object.fromEntries(lifetimes), days);
  });

  test('an expired token is 401, and is listed as expired', async () => {
    const secret = await create('--user', '301347', '--expires', '1m');
    assert.equal(await statusOf(secret), 200);
    withBooks((books) => books.prepare("update tokens set expires_at = created_at where user_id = '301347'").run());
    assert.equal(await statusOf(secret), 401);
    assert.equal((await list('--user', '301347'))[0]?.state, 'expired');
  });

  test('create --expires of what is no duration: exit code 2, and how to write one', async () => {
    const wrong = ['', '30', '30x', '0d', '-1d', '1234567d'];
    const refusals = wrong.map((duration) => token('create', '--user', '301348', `--expires=${duration}`));
    for (const [index, { code, stdout, stderr }] of (await Promise.all(refusals)).entries()) {
      assert.deepEqual([code, stdout], [2, ''], wrong[index]);
      assert.match(stderr, /is not a duration.*30d/);
    }
    assert.deepEqual(await list('--user', '301348'), []);
  });

  test('create --user of what is no user identifier: exit code 2, and what one is', async () => {
    const wrong = ['', 'alice', '-5', '1'.repeat(21)];
    const refusals = wrong.map((user) => token('create', `--user=${user}`));
    for (const [index, { code, stdout, stderr }] of (await Promise.all(refusals)).entries()) {
      assert.deepEqual([code, stdout], [2, ''], wrong[index]);
      assert.match(stderr, /user identifier is a number/);
    }
    assert.ok((await list()).every((row) => /^\d{1,20}$/.test(row.user)));
  });

  test('list shows a line for each token, and --user only those of one user', async () => {
    await create('--user', '301350', '--name', 'first');
    await create('--user', '301350', '--admin');
    const { code, stdout } = await token('list', '--user', '301350');
    assert.equal(code, 0);
    const [header = '', ...lines] = stdout.trimEnd().split('\n');
    assert.deepEqual(header.split(/ +/), ['ID', 'USER', 'NAME', 'ROLE', 'CREATED', 'EXPIRES', 'STATE']);
    assert.equal(lines.length, 2);
    assert.match(lines[0] ?? '', /^\d+ +301350 +first +user +\d{4}-\S+Z +never +valid$/);
    assert.match(lines[1] ?? '', /^\d+ +301350 +- +admin +\d{4}-\S+Z +never +valid$/);
    const users = (await list()).map((row) => row.user);
    for (const user of ['300001', '301330', '301350']) assert.ok(users.includes(user));
  });

  test('list --json is JSON with exactly the fields of the table', async () => {
    const [row] = await list('--user', '301330');
    assert.deepEqual(Object.keys(row ?? {}), ['id', 'user', 'name', 'admin', 'created', 'expires', 'state']);
    assert.equal(typeof row?.id, 'number');
  });

  test('list never shows a token, nor anything that it could be made from', async () => {
    for (const options of [[], ['--json']]) {
      const { stdout } = await token('list', ...options);
      for (const secret of [server.userToken, server.adminToken]) assert.ok(!stdout.includes(secret.slice(7, 20)));
      assert.doesNotMatch(stdout, /bursar_|[0-9a-f]{64}/, 'a token or a hash');
    }
  });

  test('the books hold no token, only hashes', () => {
    const rows = withBooks((books) => JSON.stringify(books.prepare('select * from tokens').all()));
    for (const secret of [server.userToken, server.adminToken]) assert.ok(!rows.includes(secret.slice(7)));
  });

  test('revoke makes a token invalid at once: 401 afterwards; others of the user stay valid', async () => {
    const [first, second] = [await create('--user', '301354'), await create('--user', '301354')];
    const [row] = await list('--user', '301354');
    for (const _ of ['once', 'again, which changes nothing']) {
      const { code, stdout, stderr } = await token('revoke', String(row?.id));
      assert.deepEqual([code, stdout, stderr], [0, `Token ${row?.id} is revoked.\n`, '']);
    }
    assert.deepEqual([await statusOf(first), await statusOf(second)], [401, 200]);
    assert.deepEqual(
      (await list('--user', '301354')).map(({ state }) => state),
      ['revoked', 'valid'],
    );
  });

  test('revoke of an unknown id: exit code 4', async () => {
    const { code, stdout, stderr } = await token('revoke', '999999');
    assert.deepEqual([code, stdout, stderr], [4, '', 'There is no token 999999.\n']);
  });

  test('revoke of what is no number: exit code 2', async () => {
    const wrong = ['abc', '1e3', 'bursar_abc'];
    for (const { code, stdout, stderr } of await Promise.all(wrong.map((id) => token('revoke', id)))) {
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

test('token create works before any server has been started, and the server then knows the token', async (t) => {
  const data = emptyFolder(t);
  const { code, stdout, stderr } = await bursar(['token', 'create', '--user', '301356'], { BURSAR_DATA: data });
  assert.equal(code, 0, stderr);
  const later = await spawnServer({ data });
  t.after(() => later.dispose());
  assert.equal((await callerOf(later.url, stdout.trim()).get('/jobs/')).status, 200);
});

test('token list works before any server has been started: there are none', async (t) => {
  const { code, stdout } = await bursar(['token', 'list', '--json'], { BURSAR_DATA: emptyFolder(t) });
  assert.deepEqual([code, stdout], [0, '[]\n']);
});

test('the longest duration that is taken does no harm to token list', async (t) => {
  const settings = { BURSAR_DATA: emptyFolder(t) };
  await bursar(['token', 'list'], settings);
  const { code } = await bursar(['token', 'create', '--user', '301349', '--expires', '999999y'], settings);
  assert.ok(code === 0 || code === 2, String(code));
  const { code: listed, stderr } = await bursar(['token', 'list'], settings);
  assert.equal(listed, 0, stderr);
});

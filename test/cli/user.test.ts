import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createCaller } from '../support/api.ts';
import { bursar } from '../support/program.ts';
import { startServer, type TestServer } from '../support/server.ts';

interface AuditRecord {
  action: string;
  subject: string;
  details: Record<string, unknown>;
}

let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server.dispose());

const getStatus = async (secret: string, path = '/quotas/') =>
  (await createCaller(server.url, secret).get(path)).status;

describe('bursar user', () => {
  const user = (...args: string[]) => bursar(['user', ...args], { BURSAR_DATA: server.data });
  const why = ['--reason', 'because of a test', '--actor', 'day-shift'];

  test('list and show print users as a table and as JSON', async () => {
    const [table, json, one] = await Promise.all([user('list'), user('list', '--json'), user('show', '301330')]);
    assert.deepEqual([table.code, json.code, one.code], [0, 0, 0]);
    const [header = '', ...lines] = table.stdout.trimEnd().split('\n');
    assert.deepEqual(header.split(/ +/), ['USER', 'ROLE', 'NAME', 'CREATED', 'STATE']);
    const line = lines.find((text) => text.startsWith('301330 '));
    assert.match(line ?? '', /^301330 +user +- +\d{4}-\S+Z +enabled$/);
    const shown = JSON.parse(one.stdout);
    assert.deepEqual(
      [shown.user, shown.role, shown.disabled_at, typeof shown.created_at],
      ['301330', 'user', null, 'string'],
    );
    const listed = (JSON.parse(json.stdout) as { user: string; role: string }[]).find((row) => row.user === '300001');
    assert.equal(listed?.role, 'administrator');
  });

  test('disable, enable and role take effect at once, with actor and reason in the audit trail', async () => {
    const secret = await server.token('301360', { admin: true });
    const states: unknown[] = [];
    const steps = [['disable'], ['enable'], ['role', 'auditor']] as const;
    for (const [action, role] of steps) {
      const { code, stdout, stderr } = await user(action, '301360', ...(role === undefined ? [] : [role]), ...why);
      assert.deepEqual([code, stderr], [0, ''], stderr);
      const changed = JSON.parse(stdout) as { role: string; disabled_at: string | null };
      states.push([
        changed.role,
        changed.disabled_at === null,
        await getStatus(secret),
        await getStatus(secret, '/admin/users/'),
      ]);
    }
    assert.deepEqual(states, [
      ['administrator', false, 403, 403],
      ['administrator', true, 200, 200],
      ['auditor', true, 200, 200],
    ]);
    const reason = 'because of a test';
    const records = await createCaller(server.url, server.adminToken).get<AuditRecord[]>(
      '/admin/audit/?actor=day-shift',
    );
    const acts = records.body.map(({ action, subject, details }) => [action, subject, details]);
    assert.deepEqual(acts.toReversed(), [
      ['user.disable', '301360', { reason }],
      ['user.enable', '301360', { reason }],
      ['user.role', '301360', { role: 'auditor', reason }],
    ]);
  });

  test('exits with 4 for an unknown user, and with 2 without a reason or with an unknown role', async () => {
    const wrong: [args: string[], code: number, message: RegExp][] = [
      [['show', '999999'], 4, /no user/],
      [['disable', '999999', ...why], 4, /no user/],
      [['disable', '301330'], 2, /--reason/],
      [['role', '301330', 'root', ...why], 2, /A role is one of/],
    ];
    const outcomes = await Promise.all(wrong.map(([args]) => user(...args)));
    for (const [index, { code, stdout, stderr }] of outcomes.entries()) {
      const [args, expectedCode, message] = wrong[index] ?? [[], 0, /never/];
      assert.deepEqual([code, stdout], [expectedCode, ''], `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, message);
    }
  });
});

test('the last administrator can be disabled on the command line, which warns and can undo it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-users-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const settings = { BURSAR_DATA: folder };
  assert.equal((await bursar(['token', 'create', '--user', '1', '--admin'], settings)).code, 0);
  const change = (action: string) => bursar(['user', action, '1', '--reason', 'stolen account'], settings);
  const disabled = await change('disable');
  assert.deepEqual([disabled.code, /no administrator any more/.test(disabled.stderr)], [0, true]);
  const enabled = await change('enable');
  assert.deepEqual([enabled.code, enabled.stderr], [0, '']);
});

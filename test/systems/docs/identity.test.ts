import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { runFile } from '../../support/command-line.ts';
import { findExample } from '../../support/readme.ts';
import { startServer, type TestServer } from '../../support/server.ts';

const readPage = (name: string) => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8');

describe('the examples of docs/identity.md and docs/audit.md', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server.dispose());

  const run = async (page: string, containing: string, changes: [from: string | RegExp, to: string][] = []) => {
    const example = findExample('bash', containing, server.url, readPage(page));
    const script = changes.reduce((text, [from, to]) => text.replace(from, to), example);
    const env = { ...process.env, TOKEN: server.userToken, ADMIN_TOKEN: server.adminToken };
    const { stdout } = await runFile('bash', ['-euc', script], { env });
    return stdout.split(/(?<=\})(?=\{)/).map((text) => JSON.parse(text));
  };

  test('a program asks for a token by the device flow', async () => {
    const [started, pending] = await run('identity.md', '/oauth/device/');
    assert.match(started.user_code, /^[A-Z]{4}-[A-Z]{4}$/);
    assert.deepEqual([started.verification_uri, pending.error], [`${server.url}/device/`, 'invalid_grant']);
  });

  test('a user reads the account, creates a token that can do less, and revokes a token', async () => {
    // The number of the token depends on the database.
    const [me, created, error] = await run('identity.md', '/me/tokens/', [['/me/tokens/7/', '/me/tokens/999999/']]);
    assert.equal(me.user, '301330');
    assert.deepEqual([created.hpc, created.scopes], ['hpc_one', ['jobs:read', 'quotas:read']]);
    assert.match(created.token, /^bursar_/);
    assert.equal(error.code, 'token_unknown');
  });

  test('an administrator reads the audit trail', async () => {
    const [records] = await run('audit.md', '/admin/audit/', [
      [/ -o audit\.csv/, ' -o /dev/null'],
      ['bursar audit verify', ''],
      ['action=access&', ''],
    ]);
    assert.ok(records.some(({ action }: { action: string }) => action === 'token.create'));
  });
});

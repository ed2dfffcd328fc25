import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import { type Caller, createCaller } from '../../support/api.ts';
import type { OpenApi } from '../../support/contract.ts';
import { assertLedgerBalances } from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';

// What administrators see and do, nobody else does.

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 50_000, spaceKb: 100 });
  admin = fixture.admin;
  await fixture.user('302401');
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

describe('all of it is for administrators alone', () => {
  const values: Record<string, string> = {
    hpc: 'hpc_one',
    project_name: 'proj_hpc_one_01',
    job_id: 'X',
  };
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
  let paths: { path: string; documented: string[] }[];

  before(async () => {
    const { body: document } = await createCaller(fixture.server.url, null).get<OpenApi>('/openapi.json');
    paths = Object.entries(document.paths)
      .filter(([path]) => path.startsWith('/admin/'))
      .map(([path, operations]) => ({
        path: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '302401'),
        documented: Object.keys(operations).map((method) => method.toUpperCase()),
      }));
  });

  test('every path under /admin/ is described, and there are many', () => {
    assert.ok(paths.length >= 25, String(paths.length));
    for (const family of ['quotas', 'jobs', 'grants', 'projects', 'users', 'usage', 'audit', 'ledger']) {
      assert.ok(
        paths.some(({ path }) => path.startsWith(`/admin/${family}/`)),
        family,
      );
    }
  });

  test('an ordinary user gets 403 on every path and method, and nothing happens', async () => {
    const plain = await fixture.uncheckedUser('302401');
    const before = (await fixture.query('select id from entries')).length;
    const members = (await admin.get(`/admin/projects/${defaultProjectPath}/members/`)).text;
    const body = JSON.stringify({ kind: 'top_up', resource: 'time', amount: 1, reason, status: 'banned' });
    for (const { path, documented } of paths) {
      for (const method of methods) {
        const headers = { 'content-type': 'application/json', 'idempotency-key': `${method}-${path}` };
        const answer = await plain.send(method, path, headers, method === 'GET' ? undefined : body);
        const { code } = answer.body as { code: string };
        if (documented.includes(method))
          assert.deepEqual([answer.status, code], [403, 'forbidden'], `${method} ${path}`);
        else assert.ok(answer.status === 403 || answer.status === 405, `${method} ${path} ${answer.text}`);
      }
    }
    assert.equal((await fixture.query('select id from entries')).length, before);
    assert.equal((await admin.get(`/admin/projects/${defaultProjectPath}/members/`)).text, members);
  });

  test('a token of an administrator that was not made for it gets 403 as well', async () => {
    const { code, stdout } = await fixture.bursar('token', 'create', '--user', adminId);
    assert.equal(code, 0);
    const answer = await createCaller(fixture.server.url, stdout.trim()).get('/admin/users/');
    assertProblem(answer, { status: 403, code: 'forbidden' });
  });

  test('without a token it is 401 on every path and method', async () => {
    const nobody = createCaller(fixture.server.url, null);
    for (const { path, documented } of paths) {
      for (const method of documented) {
        assertProblem(await nobody.send(method, path), { status: 401, code: 'token_missing' });
      }
    }
  });

  test('for an administrator no path answers with a fault of the server, whatever is sent', async () => {
    const plain = await fixture.uncheckedUser(adminId);
    for (const { path, documented } of paths) {
      for (const method of documented.filter((name) => name !== 'GET')) {
        for (const body of ['', '{', '[]', '"x"', 'null', '{"reason":{"a":1}}']) {
          const headers = { 'content-type': 'application/json', 'idempotency-key': 'x' };
          const { status, text } = await plain.send(method, path, headers, body);
          assert.ok(status >= 400 && status < 500, `${method} ${path} ${body}: ${status} ${text}`);
        }
      }
    }
  });
});

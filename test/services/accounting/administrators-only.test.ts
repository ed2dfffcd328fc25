import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, adminId, openAccountingFixture } from '../../support/accounting-fixture.ts';
import { createCaller } from '../../support/api.ts';
import type { OpenApi } from '../../support/contract.ts';
import { assertLedgerBalances } from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';

// Access control of the paths under /admin/.

let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 50_000, spaceKb: 100 });
  await fixture.user('302401');
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

describe('paths under /admin/', () => {
  const values: Record<string, string> = {
    hpc: 'hpc_one',
    project_name: 'proj_hpc_one_01',
    job_id: 'X',
  };
  let paths: { path: string; documented: string[]; withBody: string[] }[];

  before(async () => {
    const { body: document } = await createCaller(fixture.server.url, null).get<OpenApi>('/openapi.json');
    paths = Object.entries(document.paths)
      .filter(([path]) => path.startsWith('/admin/'))
      .map(([path, operations]) => ({
        path: path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '302401'),
        documented: Object.keys(operations).map((method) => method.toUpperCase()),
        withBody: Object.entries(operations)
          .filter(([, { requestBody }]) => requestBody !== undefined)
          .map(([method]) => method.toUpperCase()),
      }));
  });

  test('are all in the OpenAPI document', () => {
    assert.ok(paths.length >= 25, String(paths.length));
    for (const family of ['quotas', 'jobs', 'grants', 'projects', 'users', 'usage', 'audit', 'ledger']) {
      assert.ok(
        paths.some(({ path }) => path.startsWith(`/admin/${family}/`)),
        family,
      );
    }
  });

  test('return 403 to an administrator whose token was created without --admin', async () => {
    const { code, stdout } = await fixture.bursar('token', 'create', '--user', adminId);
    assert.equal(code, 0);
    const response = await createCaller(fixture.server.url, stdout.trim()).get('/admin/users/');
    assertProblem(response, { status: 403, code: 'insufficient_scope' });
  });

  test('return 401 without a token for every method', async () => {
    const anonymous = createCaller(fixture.server.url, null);
    for (const { path, documented } of paths) {
      for (const method of documented) {
        assertProblem(await anonymous.send(method, path), { status: 401, code: 'token_missing' });
      }
    }
  });

  test('return 4xx, never 5xx, to an administrator who sends an invalid body', async () => {
    const administrator = await fixture.uncheckedUser(adminId);
    assert.ok(paths.some(({ withBody }) => withBody.length > 0));
    for (const { path, withBody } of paths) {
      for (const method of withBody) {
        for (const body of ['', '{', '[]', '"x"', 'null', '{"reason":{"a":1}}']) {
          const headers = { 'content-type': 'application/json', 'idempotency-key': 'x' };
          const { status, text } = await administrator.send(method, path, headers, body);
          assert.ok(status >= 400 && status < 500, `${method} ${path} ${body}: ${status} ${text}`);
        }
      }
    }
  });
});

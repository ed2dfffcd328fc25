import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { adminId, defaultProjectPath } from '../../support/accounting-fixture.ts';
import type { Caller } from '../../support/api.ts';
import { parseCsv } from '../../support/csv.ts';
import { getStatement } from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { openStatementFixture, type StatementFixture, user } from './statement-fixture.ts';

let fixture: StatementFixture;
let me: Caller;

before(async () => {
  fixture = await openStatementFixture();
  me = fixture.me;
});
after(() => fixture.close());

describe('a statement as CSV', () => {
  const path = `/quotas/${defaultProjectPath}/statement/`;

  test('is the same by Accept header and by ?format=csv', async () => {
    const caller = await fixture.uncheckedUser(user);
    const byAccept = await caller.send('GET', path, { accept: 'text/csv' });
    const byFormat = await caller.get(`${path}?format=csv`);
    for (const response of [byAccept, byFormat]) {
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('content-type'), 'text/csv; charset=utf-8');
    }
    assert.equal(byAccept.text, byFormat.text);
    const json = await caller.send('GET', `${path}?format=json`, { accept: 'text/csv' });
    assert.equal(
      json.headers.get('content-type'),
      'application/json',
      'the query parameter overrides the Accept header',
    );
  });

  test('has a line for each movement, with the same values as the JSON', async () => {
    const { text } = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    const [header, ...lines] = parseCsv(text);
    const { time, space } = await getStatement(me);
    assert.deepEqual(header, [
      'resource',
      'unit',
      'id',
      'at',
      'kind',
      'change',
      'balance',
      'used',
      'job_id',
      'actor',
      'reason',
    ]);
    const rows = [time, space].flatMap((account) =>
      account.movements.map((m) => [
        account === time ? 'time' : 'space',
        account.unit,
        String(m.id),
        m.at,
        m.kind,
        String(m.change),
        String(m.balance),
        String(m.used),
        m.job_id ?? '',
        m.actor,
        m.reason === '=1+1' ? "'=1+1" : m.reason,
      ]),
    );
    assert.deepEqual(lines, rows);
  });

  test('escapes a reason that a spreadsheet would evaluate as a formula', async () => {
    const { text } = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    assert.match(text, /,'=1\+1\r\n/);
    assert.doesNotMatch(text, /,=1/);
  });

  test('accepts a time range, and rejects an invalid one', async () => {
    const caller = await fixture.uncheckedUser(user);
    const { text } = await caller.get(`${path}?format=csv&to=2001-01-01`);
    assert.equal(parseCsv(text).length, 1, 'only the header');
    assertProblem(await caller.get(`${path}?format=csv&from=never`), { status: 400, code: 'bad_request' });
  });

  test('of another user can be read by administrators', async () => {
    const own = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    const adminView = await (await fixture.uncheckedUser(adminId)).get(
      `/admin/quotas/${user}/${defaultProjectPath}/statement/?format=csv`,
    );
    assert.equal(adminView.text, own.text);
  });
});

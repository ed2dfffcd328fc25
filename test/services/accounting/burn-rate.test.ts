import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller } from '../../support/api.ts';
import { getStatement, runJob, withdraw } from '../../support/ledger.ts';
import { granted, openStatementFixture, type StatementFixture } from './statement-fixture.ts';

let fixture: StatementFixture;
let me: Caller;

before(async () => {
  fixture = await openStatementFixture();
  me = fixture.me;
});
after(() => fixture.close());

describe('the burn rate', () => {
  test('is the use per day (charges minus refunds), averaged over at least one day', async () => {
    const { time } = await getStatement(me);
    const used = time.movements.reduce((sum, movement) => sum + movement.used, 0);
    assert.ok(used > 0);
    assert.equal(time.burn_rate_per_day, used, 'all of it was used today');
  });

  test('predicts when the time runs out', async () => {
    const caller = await fixture.user('302010');
    await runJob(caller, { command: 'true', core_number: 100, runtime: 0.1 });
    const { movements } = (await getStatement(caller)).time;
    const used = movements.at(-1)?.used ?? Number.NaN;
    const before = Date.now();
    const { time } = await getStatement(caller);
    const after = Date.now();
    assert.equal(time.burn_rate_per_day, used);
    const runsOut = Date.parse(time.runs_out_at ?? '');
    const remainingMs = (time.closing_balance / used) * 86_400_000;
    assert.ok(runsOut >= before + remainingMs - 1 && runsOut <= after + remainingMs + 1, time.runs_out_at ?? 'never');
  });

  test('is zero without use, and then predicts no end', async () => {
    const { time } = await getStatement(await fixture.user('302011'));
    assert.deepEqual([time.burn_rate_per_day, time.runs_out_at], [0, null]);
  });

  test('predicts the present, not the past, for a quota that is used up', async () => {
    const caller = await fixture.user('302012');
    await withdraw(fixture.admin, '302012', granted - 1);
    await runJob(caller, { command: 'true', runtime: 1 / 3600 });
    const before = Date.now();
    const { time } = await getStatement(caller);
    assert.ok(time.closing_balance <= 0);
    assert.ok(Date.parse(time.runs_out_at ?? '') >= before, time.runs_out_at ?? 'never');
  });
});

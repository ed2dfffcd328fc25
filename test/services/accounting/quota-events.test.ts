import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller } from '../../support/api.ts';
import { createProject, postAsAdmin, postCreated, runJob, setMember } from '../../support/ledger.ts';

// The event quota.changed, for the users whose quotas an administrator changes

interface Event {
  id: number;
  type: string;
  data: { change: number; account: string; resource: string; reason: string };
}

const [me, other, removed] = ['302601', '302602', '302603'];
const reason = 'because of a test';
let fixture: AccountingFixture;
let grants: string;

before(async () => {
  fixture = await openAccountingFixture();
  for (const user of [me, other, removed]) await fixture.user(user);
  const project = await createProject(fixture.admin, 'events', [me, other, removed], { timeSeconds: 5000 });
  await setMember(fixture.admin, project, removed, 'removed', reason);
  grants = `/admin/grants/${project}/`;
});
after(() => fixture.dispose());

const grant = (path: string, body: object) => postCreated(fixture.admin, `${grants}${path}`, { ...body, reason });

/** Formats the changes that a request makes to the quotas of each user. */
async function changesBy(request: () => Promise<unknown>): Promise<string[]> {
  const listChanges = async (user: string) =>
    (await (await fixture.user(user)).get<{ events: Event[] }>('/events/?limit=1000')).body.events
      .filter(({ type }) => type === 'quota.changed')
      .map(({ data }) => `${user} ${data.account} ${data.resource} ${data.change} ${data.reason}`);
  const users = [me, other, removed];
  const before = await Promise.all(users.map(listChanges));
  await request();
  const changes = await Promise.all(users.map(listChanges));
  return changes.flatMap((list, index) => list.slice(before[index]?.length));
}

describe('quota.changed', () => {
  test('tells the member whose quota changes, in the units of the API', async () => {
    const path = `members/${me}/`;
    const topUp = { kind: 'top_up', resource: 'time', amount: 100, source: 'new' };
    assert.deepEqual(await changesBy(() => grant(path, topUp)), [`${me} cap time 100 ${reason}`]);
    const withdraw = { kind: 'withdraw', resource: 'space', amount: 3, source: 'new' };
    assert.deepEqual(await changesBy(() => grant(path, withdraw)), [`${me} cap space -3 ${reason}`]);
  });

  test('tells both members of a transfer', async () => {
    const transfer = { from: me, to: other, resource: 'time', amount: 7 };
    assert.deepEqual(await changesBy(() => grant('transfers/', transfer)), [
      `${me} cap time -7 ${reason}`,
      `${other} cap time 7 ${reason}`,
    ]);
  });

  test('tells the owner of a refunded job', async () => {
    const job = await runJob(await fixture.user(me), { command: 'sleep 1' }, undefined, 'hpc_one/events');
    const refund = { job_id: job.job_id, amount: 1 };
    assert.deepEqual(await changesBy(() => grant('refunds/', refund)), [`${me} cap time 1 ${reason}`]);
  });

  test('tells all active members of a change of the pool, and of a new period', async () => {
    const topUp = { kind: 'top_up', resource: 'time', amount: 50 };
    assert.deepEqual(await changesBy(() => grant('', topUp)), [
      `${me} pool time 50 ${reason}`,
      `${other} pool time 50 ${reason}`,
    ]);
    assert.deepEqual(await changesBy(() => grant('periods/', { member_seconds: 900, reserve_seconds: 0 })), [
      `${me} cap time 900 ${reason}`,
      `${other} cap time 900 ${reason}`,
    ]);
  });

  test('is not written by a change that is refused, nor twice by a repeated request', async () => {
    const path = `${grants}members/${me}/`;
    const withdraw = { kind: 'withdraw', resource: 'time', amount: 1_000_000, source: 'new', reason };
    assert.deepEqual(await changesBy(() => postAsAdmin(fixture.admin, path, withdraw)), []);
    const topUp = { kind: 'top_up', resource: 'time', amount: 5, source: 'new', reason };
    const changes = await changesBy(async () => {
      for (let count = 0; count < 2; count += 1) await postCreated(fixture.admin, path, topUp, 'the-same-key');
    });
    assert.deepEqual(changes, [`${me} cap time 5 ${reason}`]);
  });

  test('wakes a reader that waits for events', async () => {
    const caller: Caller = await fixture.user(me);
    const { body } = await caller.get<{ next: number }>('/events/?limit=1000');
    const waiting = caller.get<{ events: Event[] }>(`/events/?after=${body.next}&wait=60`);
    await grant(`members/${me}/`, { kind: 'top_up', resource: 'time', amount: 11, source: 'new' });
    const { events } = (await waiting).body;
    assert.deepEqual(
      events.map(({ type, data }) => [type, data.change]),
      [['quota.changed', 11]],
    );
  });
});

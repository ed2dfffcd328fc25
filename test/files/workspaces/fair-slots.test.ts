import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createFairSlots } from '../../../src/files/workspaces/remote/fair-slots.ts';
import { notAborted } from '../../support/signals.ts';

/** Takes slots for users in this order. `granted` lists the users that have got one. */
function takeAll(slots: ReturnType<typeof createFairSlots>, users: string) {
  const granted: string[] = [];
  const frees = new Map<string, (() => void)[]>();
  for (const user of users) {
    void slots.take(user, notAborted).then((free) => {
      granted.push(user);
      frees.set(user, [...(frees.get(user) ?? []), free]);
    });
  }
  const free = async (user: string) => {
    frees.get(user)?.shift()?.();
    await nextTurn();
  };
  return { granted, free };
}

test('a free slot goes to the waiting user who has the fewest', async () => {
  const slots = createFairSlots({ total: 3, perUser: 3 });
  const { granted, free } = takeAll(slots, 'AAAAABC');
  await nextTurn();
  assert.equal(granted.join(''), 'AAA');
  for (const user of 'AABA') await free(user);
  assert.equal(granted.join(''), 'AAABCAA');
});

test('no user has more than the share of one user, and then nobody is waited for', async () => {
  const slots = createFairSlots({ total: 3, perUser: 2 });
  const { granted, free } = takeAll(slots, 'AAA');
  await nextTurn();
  assert.equal(granted.join(''), 'AA');
  assert.equal(slots.isContended(), false);
  const others = takeAll(slots, 'BC');
  await nextTurn();
  assert.equal(others.granted.join(''), 'B');
  assert.equal(slots.isContended(), true);
  await free('A');
  assert.equal(others.granted.join(''), 'BC');
});

test('a caller that stops waiting takes no slot, and freeing twice frees one', async () => {
  const slots = createFairSlots({ total: 1, perUser: 1 });
  const free = await slots.take('A', notAborted);
  const aborted = new AbortController();
  const waiting = slots.take('B', aborted.signal);
  aborted.abort(new Error('left'));
  await assert.rejects(waiting, /left/);
  assert.equal(slots.isContended(), false);
  free();
  free();
  const { granted } = takeAll(slots, 'CD');
  await nextTurn();
  assert.equal(granted.join(''), 'C');
});

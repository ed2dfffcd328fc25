import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createSlots, type Slots } from '../../src/domain/slots.ts';

/** Takes slots for users in this order. `granted` lists the users that have got one. */
function takeAll(slots: Slots, users: string) {
  const granted: string[] = [];
  const frees = new Map<string, (() => void)[]>();
  for (const user of users) {
    void slots.take({ key: user }).then((free) => {
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

describe('slots with keys', () => {
  test('go to the waiting key that has the fewest, and of several to the one that has waited longest', async () => {
    const slots = createSlots({ total: 3, perKey: 3 });
    const { granted, free } = takeAll(slots, 'AAAAABCB');
    await nextTurn();
    assert.equal(granted.join(''), 'AAA');
    for (const user of 'AABAC') await free(user);
    assert.equal(granted.join(''), 'AAABCBAA');
  });

  test('are at most as many as one key may have, and then nobody is waited for', async () => {
    const slots = createSlots({ total: 3, perKey: 2 });
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

  test('can be taken without waiting, or not at all', () => {
    const slots = createSlots({ total: 3, perKey: 2 });
    const frees = [slots.tryTake('A'), slots.tryTake('A'), slots.tryTake('B')];
    assert.deepEqual(
      [slots.countTaken('A'), slots.countTaken('B'), slots.countTaken('C'), slots.countTaken()],
      [2, 1, 0, 3],
    );
    assert.equal(slots.tryTake('C'), undefined, 'all slots are taken');
    frees[2]?.();
    assert.equal(slots.tryTake('A'), undefined, 'the key has its share');
    assert.ok(slots.tryTake('C'));
    frees[0]?.();
    assert.deepEqual([slots.countTaken('A'), slots.countTaken()], [1, 2]);
  });
});

test('a caller that stops waiting takes no slot, and freeing twice frees one', async () => {
  const slots = createSlots({ total: 1, perKey: 1 });
  const free = await slots.take({ key: 'A' });
  const aborted = new AbortController();
  const waiting = slots.take({ key: 'B', signal: aborted.signal });
  aborted.abort(new Error('left'));
  await assert.rejects(waiting, /left/);
  await assert.rejects(slots.take({ signal: aborted.signal }), /left/);
  assert.equal(slots.isContended(), false);
  free();
  free();
  const { granted } = takeAll(slots, 'CD');
  await nextTurn();
  assert.equal(granted.join(''), 'C');
});

describe('work in slots', () => {
  test('of one key runs one after another, also after a failure, and that of others beside it', async () => {
    const slots = createSlots({ perKey: 1 });
    const started: string[] = [];
    const first = Promise.withResolvers<void>();
    const search = (name: string, until: Promise<void>) => async () => {
      started.push(name);
      await until;
      return name;
    };
    const one = { key: 'one' };
    const results = [
      slots.run(search('first', first.promise), one),
      slots.run(search('second', Promise.resolve()), one),
      slots.run(() => Promise.reject(new Error('no database')), one),
      slots.run(search('fourth', Promise.resolve()), one),
    ];
    const refused = assert.rejects(results[2] as Promise<unknown>, /no database/);
    await slots.run(search('of the other', Promise.resolve()), { key: 'other' });
    assert.deepEqual(started, ['first', 'of the other']);
    first.resolve();
    assert.equal(await results[3], 'fourth');
    await refused;
    assert.deepEqual(started, ['first', 'of the other', 'second', 'fourth']);
  });

  test('runs as often at the same time as is allowed, in the order of the calls', async () => {
    const slots = createSlots({ total: 2 });
    let [running, most] = [0, 0];
    const order: number[] = [];
    const task = async (index: number) => {
      order.push(index);
      most = Math.max(most, ++running);
      await nextTurn();
      running -= 1;
    };
    const indexes = Array.from({ length: 10 }, (_, index) => index);
    await Promise.all(indexes.map((index) => slots.run(() => task(index))));
    assert.equal(most, 2);
    assert.deepEqual(order, indexes);
    assert.equal(slots.countTaken(), 0);
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUserQueue } from '../../../src/services/jobs/user-queue.ts';

test('searches of one user run one after another, and those of others beside them', async () => {
  const enqueue = createUserQueue(1);
  const started: string[] = [];
  const first = Promise.withResolvers<void>();
  const search = (name: string, until: Promise<void>) => async () => {
    started.push(name);
    await until;
    return name;
  };
  const results = [
    enqueue('one', search('first', first.promise)),
    enqueue('one', search('second', Promise.resolve())),
    enqueue('one', () => Promise.reject(new Error('no database'))),
    enqueue('one', search('fourth', Promise.resolve())),
  ];
  const refused = assert.rejects(results[2] as Promise<unknown>, /no database/);
  await enqueue('other', search('of the other', Promise.resolve()));
  assert.deepEqual(started, ['first', 'of the other']);
  first.resolve();
  assert.equal(await results[3], 'fourth');
  await refused;
  assert.deepEqual(started, ['first', 'of the other', 'second', 'fourth']);
});

test('as many tasks of a user run beside each other as are allowed', async () => {
  const enqueue = createUserQueue(2);
  let [running, most] = [0, 0];
  const task = async () => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    running -= 1;
  };
  await Promise.all(Array.from({ length: 10 }, () => enqueue('one', task)));
  assert.equal(most, 2);
});

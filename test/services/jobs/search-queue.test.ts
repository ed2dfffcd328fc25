import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSearchQueue } from '../../../src/services/jobs/search-queue.ts';

test('searches of one user run one after another, and those of others beside them', async () => {
  const enqueue = createSearchQueue();
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

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type HistoryResult, runSeeds } from '../../simulation/run-seeds.ts';

const [first, last] = [1, 100];
/** The seeds that run a second time, in another process. */
const [firstRepeated, lastRepeated] = [3, 7];

describe('simulated histories', () => {
  let results: HistoryResult[] = [];
  before(async () => {
    results = await runSeeds(first, last);
  });

  test('keep every rule, whatever fails', () => {
    assert.equal(results.length, last - first + 1);
    for (const { seed, problems } of results)
      assert.deepEqual(problems, [], `npm run simulate -- --seed ${seed} --trace`);
    for (const { seed, jobs, faults } of results) assert.ok(jobs >= 50 && faults >= 20, `seed ${seed} shows little`);
  });

  test('are the same for the same seed', async () => {
    const hashes = (all: HistoryResult[]) => all.map(({ seed, hash }) => [seed, hash]);
    const again = await runSeeds(firstRepeated, lastRepeated);
    assert.equal(again.length, 5);
    for (const { hash } of again) assert.match(hash, /^[0-9a-f]{16}$/);
    assert.deepEqual(hashes(again), hashes(results.slice(firstRepeated - first, lastRepeated - first + 1)));
  });
});

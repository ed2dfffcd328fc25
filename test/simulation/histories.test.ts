import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type HistoryResult, runSeedsInOneProcess } from '../../simulation/run-seeds.ts';

/** Two processes, one for each core. The five seeds that are in both show that a history is a function of its seed. */
const [firstSeeds, lastSeeds] = [
  [1, 52],
  [48, 100],
] as const;

describe('simulated histories', () => {
  let first: HistoryResult[] = [];
  let last: HistoryResult[] = [];
  before(async () => {
    [first, last] = await Promise.all([runSeedsInOneProcess(...firstSeeds), runSeedsInOneProcess(...lastSeeds)]);
  });

  test('keep every rule, whatever fails', () => {
    const results = [...first, ...last];
    assert.equal(new Set(results.map(({ seed }) => seed)).size, 100);
    for (const { seed, problems } of results)
      assert.deepEqual(problems, [], `npm run simulate -- --seed ${seed} --trace`);
    for (const { seed, jobs, faults } of results) assert.ok(jobs >= 50 && faults >= 20, `seed ${seed} shows little`);
  });

  test('are the same for the same seed', () => {
    const hashes = (results: HistoryResult[]) => results.map(({ seed, hash }) => [seed, hash]);
    const again = last.slice(0, 5);
    for (const { hash } of again) assert.match(hash, /^[0-9a-f]{16}$/);
    assert.deepEqual(hashes(again), hashes(first.slice(-5)));
  });
});

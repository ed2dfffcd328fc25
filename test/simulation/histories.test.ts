import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runSeeds } from '../../simulation/run-seeds.ts';

const [first, last] = [1, 100];
const repeated = [1, 2, 3, 4, 5];

describe('simulated histories', () => {
  test('keep every rule, whatever fails', async () => {
    const results = await runSeeds(first, last);
    assert.equal(results.length, last - first + 1);
    for (const { seed, problems } of results)
      assert.deepEqual(problems, [], `npm run simulate -- --seed ${seed} --trace`);
    for (const { seed, jobs, faults } of results) assert.ok(jobs >= 50 && faults > 0, `seed ${seed} shows little`);
    const averageFaults = results.reduce((sum, { faults }) => sum + faults, 0) / results.length;
    assert.ok(averageFaults >= 20, `${averageFaults} faults in a history`);
  });

  test('are the same for the same seed', async () => {
    for (const seed of repeated) {
      const [[one], [other]] = [await runSeeds(seed, seed), await runSeeds(seed, seed)];
      assert.match(one?.hash ?? '', /^[0-9a-f]{16}$/);
      assert.equal(one?.hash, other?.hash, `seed ${seed}`);
    }
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { coresNeeded } from '../../../src/engines/local/job-list.ts';
import { createJobQueue } from '../../../src/engines/local/job-queue.ts';
import { selectStartable } from '../../../src/engines/local/scheduler.ts';

test('coresNeeded multiplies nodes and cores per node, up to the cores that exist', () => {
  assert.equal(coresNeeded({ nodes: 2, coresPerNode: 3 }, 8), 6);
  assert.equal(coresNeeded({ nodes: 5, coresPerNode: 3 }, 8), 8);
});

test('selectStartable keeps the order: a job that does not fit blocks the jobs behind it', () => {
  const queue = [2, 1, 4, 1].map((cores) => ({ cores }));
  assert.deepEqual(selectStartable(queue, 8), queue);
  assert.deepEqual(selectStartable(queue, 4), queue.slice(0, 2));
  assert.deepEqual(selectStartable(queue, 1), []);
  assert.deepEqual(selectStartable([], 1), []);
});

test('a queue begins with the owner who has waited longest, and keeps the order of each owner', () => {
  const order = (names: string, served: string[]) => {
    const toJob = (name: string) => ({ name, job: { owner: name.charAt(0) } as EngineJob });
    const queue = createJobQueue<ReturnType<typeof toJob>>();
    for (const name of names.split(' ')) queue.add(toJob(name));
    for (const name of served) queue.recordTurn(toJob(name));
    return [...queue.inTurns(({ name }) => !name.endsWith('-'))].map(({ name }) => name).join(' ');
  };
  assert.equal(order('a1 a2 a3 b1 b2 c1', []), 'a1 b1 c1 a2 b2 a3');
  assert.equal(order('a1 a2 a3 b1 b2 c1', ['a', 'b', 'a']), 'c1 b1 a1 b2 a2 a3');
  assert.equal(order('a1 a2 a3', ['a']), 'a1 a2 a3');
  assert.equal(order('a1- a2 b1- b2- c1', []), 'a2 c1');
});

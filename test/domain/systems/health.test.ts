import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusAfter } from '../../../src/domain/systems/health.ts';

describe('how a system does', () => {
  const fine = { tookMs: 20, trouble: null };
  const failed = { tookMs: 9000, trouble: 'Unable to contact slurm controller' };
  const answering = { failures: 0, failingMs: 0 };

  test('it is up while it answers, and degraded while it is slow to', () => {
    assert.deepEqual(statusAfter(fine, answering), { status: 'up', detail: 'it answers' });
    assert.deepEqual(statusAfter({ tookMs: 7000, trouble: null }, answering), {
      status: 'degraded',
      detail: 'it takes 7 s to answer',
    });
  });

  test('one failure is not yet an outage, however long it took, nor are several in a moment', () => {
    assert.equal(statusAfter(failed, { failures: 1, failingMs: 60_000 }).status, 'degraded');
    assert.equal(statusAfter(failed, { failures: 5, failingMs: 3000 }).status, 'degraded');
  });

  test('it is down when it has failed again and again for a while, and says why', () => {
    assert.deepEqual(statusAfter(failed, { failures: 2, failingMs: 18_000 }), {
      status: 'down',
      detail: failed.trouble,
    });
  });
});

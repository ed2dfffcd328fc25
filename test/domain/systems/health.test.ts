import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusAfterPoll } from '../../../src/domain/systems/health.ts';

describe('how a system does', () => {
  const fine = { durationMs: 20, error: null };
  const failed = { durationMs: 9000, error: 'Unable to contact slurm controller' };
  const answering = { failures: 0, failingMs: 0 };

  test('it is up while it answers, and degraded while it is slow to', () => {
    assert.deepEqual(statusAfterPoll(fine, answering), { status: 'up', detail: 'the scheduler answers' });
    assert.deepEqual(statusAfterPoll({ durationMs: 7000, error: null }, answering), {
      status: 'degraded',
      detail: 'the scheduler answers slowly: 7 s',
    });
  });

  test('one failure is not yet an outage, however long it took, nor are several in a moment', () => {
    assert.equal(statusAfterPoll(failed, { failures: 1, failingMs: 60_000 }).status, 'degraded');
    assert.equal(statusAfterPoll(failed, { failures: 5, failingMs: 3000 }).status, 'degraded');
  });

  test('it is down when it has failed again and again for a while, and says why', () => {
    assert.deepEqual(statusAfterPoll(failed, { failures: 2, failingMs: 18_000 }), {
      status: 'down',
      detail: failed.error,
    });
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { statusAfterPoll } from '../../../src/domain/systems/health.ts';

describe('statusAfterPoll', () => {
  const success = { durationMs: 20, error: null };
  const failed = { durationMs: 9000, error: 'Unable to contact slurm controller' };
  const noFailures = { consecutiveFailures: 0, failingMs: 0 };

  test('is up after a successful poll, and degraded after a slow one', () => {
    assert.deepEqual(statusAfterPoll(success, noFailures), { status: 'up', detail: 'the scheduler answers' });
    assert.deepEqual(statusAfterPoll({ durationMs: 7000, error: null }, noFailures), {
      status: 'degraded',
      detail: 'the scheduler answers slowly: 7 s',
    });
  });

  test('is degraded after one long failure, and after several failures in a short time', () => {
    assert.equal(statusAfterPoll(failed, { consecutiveFailures: 1, failingMs: 60_000 }).status, 'degraded');
    assert.equal(statusAfterPoll(failed, { consecutiveFailures: 5, failingMs: 3000 }).status, 'degraded');
  });

  test('is down after repeated failures over a longer time, with the last error', () => {
    assert.deepEqual(statusAfterPoll(failed, { consecutiveFailures: 2, failingMs: 18_000 }), {
      status: 'down',
      detail: failed.error,
    });
  });
});

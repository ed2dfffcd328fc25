import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findOverdue } from '../../../src/engines/local/job-end.ts';

test('a job is overdue since the first cause to end it, which decides the outcome', () => {
  for (const [sinceTimeLimitMs, sinceCancellationMs, expected] of [
    [-1000, null, null],
    [1, null, ['time_limit_reached', 1]],
    [-1000, 500, ['stop_requested', 500]],
    [300, 500, ['stop_requested', 500]],
    [500, 300, ['time_limit_reached', 500]],
  ] as const) {
    const overdue = findOverdue(sinceTimeLimitMs, sinceCancellationMs);
    assert.deepEqual(overdue && [overdue.cause.kind, overdue.overdueMs], expected);
  }
});

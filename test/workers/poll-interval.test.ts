import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { delayAfterPoll, pollInterval } from '../../src/workers/jobs/poll-interval.ts';

describe('pollInterval', () => {
  const limits = { minMs: 1000, maxMs: 30_000 };
  const history = { ...limits, jobCount: 5, unchangedMs: 0, consecutiveFailures: 0, recentPollMs: [20, 20, 20] };

  test('is short while jobs change, grows while nothing changes, and is the maximum without a job', () => {
    assert.equal(pollInterval(history), 1000);
    assert.equal(pollInterval({ ...history, unchangedMs: 50_000 }), 5000);
    assert.equal(pollInterval({ ...history, unchangedMs: 5_000_000 }), 30_000);
    assert.equal(pollInterval({ ...history, jobCount: 0 }), 30_000);
  });

  test('is ten times the duration of a poll of a slow controller', () => {
    assert.equal(pollInterval({ ...history, recentPollMs: [800, 700, 900] }), 7000);
    assert.equal(pollInterval({ ...history, recentPollMs: [800] }), 8000);
    assert.equal(pollInterval({ ...history, recentPollMs: [9000, 9000, 9000] }), 30_000);
  });

  test('does not take a controller for slow if one recent poll was fast: this process was busy', () => {
    assert.equal(pollInterval({ ...history, recentPollMs: [20, 900, 900] }), 1000);
    assert.equal(pollInterval({ ...history, recentPollMs: [900, 900, 20] }), 1000);
  });

  test('doubles after each failure, even if the failures are fast', () => {
    const afterFailures = (consecutiveFailures: number) => pollInterval({ ...history, consecutiveFailures });
    assert.deepEqual([1, 2, 3, 4, 5, 50].map(afterFailures), [2000, 4000, 8000, 16_000, 30_000, 30_000]);
  });
});

describe('delayAfterPoll', () => {
  /** Simulates the loop: a poll is due after the delay that followed the one before. Returns the start times. */
  function startTimes(polls: readonly { lateMs: number; tookMs: number }[], consecutiveFailures = 0): number[] {
    let dueAt = 0;
    return polls.map(({ lateMs, tookMs }) => {
      const startedAt = dueAt + lateMs;
      const endedAt = startedAt + tookMs;
      dueAt = endedAt + delayAfterPoll(1000, endedAt - dueAt, consecutiveFailures);
      return startedAt;
    });
  }

  test('keeps the interval, however late polls start and however long they take', () => {
    const polls = [
      { lateMs: 0, tookMs: 10 },
      { lateMs: 100, tookMs: 300 },
      { lateMs: 200, tookMs: 200 },
      { lateMs: 0, tookMs: 750 },
      { lateMs: 7, tookMs: 10 },
    ];
    assert.deepEqual(startTimes(polls), [0, 1100, 2200, 3000, 4007]);
  });

  test('is at least a quarter of the interval', () => {
    const long = { lateMs: 0, tookMs: 5000 };
    const short = { lateMs: 0, tookMs: 10 };
    assert.deepEqual(startTimes([long, short, short]), [0, 5250, 6250]);
    const late = { lateMs: 5000, tookMs: 10 };
    assert.deepEqual(startTimes([late, short, short]), [5000, 5260, 6260]);
    // There is never more than one poll in an interval.
    assert.deepEqual(startTimes([{ lateMs: 0, tookMs: 800 }, short, short]), [0, 1050, 2050]);
  });

  test('is the whole interval after a failure', () => {
    const polls = [
      { lateMs: 0, tookMs: 900 },
      { lateMs: 50, tookMs: 10 },
      { lateMs: 0, tookMs: 10 },
    ];
    assert.deepEqual(startTimes(polls, 1), [0, 1950, 2960]);
  });
});

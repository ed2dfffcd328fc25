import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { delayAfterPoll, pollInterval } from '../../src/workers/poll-interval.ts';

describe('how far apart looks at an engine begin', () => {
  const usual = { fastestMs: 1000, slowestMs: 30_000, jobs: 5, quietMs: 0, failures: 0, tookMs: [20, 20, 20] };

  test('close while something happens, ever further while nothing does, and as far as may be without a job', () => {
    assert.equal(pollInterval(usual), 1000);
    assert.equal(pollInterval({ ...usual, quietMs: 50_000 }), 5000);
    assert.equal(pollInterval({ ...usual, quietMs: 5_000_000 }), 30_000);
    assert.equal(pollInterval({ ...usual, jobs: 0 }), 30_000);
  });

  test('a controller that is slow gets ten times the time that it takes', () => {
    assert.equal(pollInterval({ ...usual, tookMs: [800, 700, 900] }), 7000);
    assert.equal(pollInterval({ ...usual, tookMs: [800] }), 8000);
    assert.equal(pollInterval({ ...usual, tookMs: [9000, 9000, 9000] }), 30_000);
  });

  test('one that was quick a moment ago is not slow: it was this process that was busy', () => {
    assert.equal(pollInterval({ ...usual, tookMs: [20, 900, 900] }), 1000);
    assert.equal(pollInterval({ ...usual, tookMs: [900, 900, 20] }), 1000);
  });

  test('one that fails is asked half as often after each failure, however quickly it fails', () => {
    const after = (failures: number) => pollInterval({ ...usual, failures });
    assert.deepEqual([1, 2, 3, 4, 5, 50].map(after), [2000, 4000, 8000, 16_000, 30_000, 30_000]);
  });
});

describe('the pause after a look', () => {
  /** When looks begin that are late by so much and take so long, by the rule of the loop: due after the pause. */
  function beginnings(looks: readonly { lateMs: number; tookMs: number }[], failures = 0): number[] {
    let [dueAt, owedMs] = [0, 0];
    return looks.map(({ lateMs, tookMs }) => {
      const begunAt = dueAt + lateMs;
      const endedAt = begunAt + tookMs;
      const pause = delayAfterPoll(1000, { sinceDueMs: endedAt - dueAt, owedMs, failures });
      dueAt = endedAt + pause.pauseMs;
      owedMs = pause.owedMs;
      return begunAt;
    });
  }

  test('keeps the pace, however late looks begin and however long they take', () => {
    const looks = [
      { lateMs: 0, tookMs: 10 },
      { lateMs: 100, tookMs: 300 },
      { lateMs: 200, tookMs: 200 },
      { lateMs: 0, tookMs: 750 },
      { lateMs: 7, tookMs: 10 },
    ];
    assert.deepEqual(beginnings(looks), [0, 1100, 2200, 3000, 4007]);
  });

  test('is a quarter of the time at the least: one look is made up for, and no more', () => {
    const long = { lateMs: 0, tookMs: 5000 };
    const short = { lateMs: 0, tookMs: 10 };
    assert.deepEqual(beginnings([long, short, short, short, short]), [0, 5250, 5510, 6250, 7250]);
    const late = { lateMs: 5000, tookMs: 10 };
    assert.deepEqual(beginnings([late, short, short, short, short]), [5000, 5260, 5520, 6260, 7260]);
    // In all there are never more of them than there should be.
    assert.deepEqual(beginnings([{ lateMs: 0, tookMs: 800 }, short, short]), [0, 1050, 2000]);
  });

  test('is the whole of it after a failure', () => {
    const looks = [
      { lateMs: 0, tookMs: 900 },
      { lateMs: 50, tookMs: 10 },
      { lateMs: 0, tookMs: 10 },
    ];
    assert.deepEqual(beginnings(looks, 1), [0, 1950, 2960]);
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createProgress, formatProgress } from '../../../src/cli/user/terminal/progress.ts';

const half = { doneBytes: 500_000_000, totalBytes: 1_000_000_000, bytesPerSecond: 50_000_000 };

describe('progress of a transfer', () => {
  test('shows a bar, the share, the bytes, the speed and the time left', () => {
    assert.equal(
      formatProgress('Uploading', half, 100),
      'Uploading  [############------------]   50 %  500 MB of 1 GB  50 MB/s  10 s left',
    );
  });

  test('shows less on a narrow terminal, and never more than fits', () => {
    assert.equal(formatProgress('Uploading', half, 50), 'Uploading   50 %  500 MB of 1 GB  50 MB/s');
    for (let width = 5; width < 120; width++) assert.ok(formatProgress('Uploading', half, width).length < width);
  });

  test('shows the bytes alone if the size is not known', () => {
    const state = { doneBytes: 1_500_000, totalBytes: null, bytesPerSecond: null };
    assert.equal(formatProgress('Uploading', state, 80), 'Uploading  1.5 MB');
  });

  function createStream(isTTY: boolean) {
    let text = '';
    const write = (chunk: string | Uint8Array) => {
      text += chunk;
      return true;
    };
    return { read: () => text, write, isTTY, columns: 100, on: () => undefined, off: () => undefined };
  }

  test('is redrawn in place, with the speed of the last seconds, also after a transfer began again', () => {
    const stream = createStream(true);
    let now = 0;
    const progress = createProgress({ stderr: stream, env: {}, now: () => now }, 'Uploading');
    for (const bytes of [0, 10_000_000, 20_000_000, 5_000_000, 15_000_000]) {
      progress.update(bytes, 100_000_000);
      now += 1000;
    }
    progress.end();
    const lines = stream.read().split('\r\u001b[K').slice(1);
    assert.equal(lines.length, 6);
    assert.match(lines[2] ?? '', /20 MB of 100 MB {2}10 MB\/s {2}8 s left$/);
    assert.match(lines[3] ?? '', /5 MB of 100 MB$/);
    assert.match(lines[4] ?? '', /15 MB of 100 MB {2}10 MB\/s {2}9 s left$/);
    assert.equal(lines[5], '');
    assert.doesNotMatch(stream.read(), /\n/);
  });

  test('writes nothing into a pipe, and nothing to a terminal without a cursor', () => {
    for (const [isTTY, env] of [
      [false, {}],
      [true, { TERM: 'dumb' }],
    ] as const) {
      const stream = createStream(isTTY);
      const progress = createProgress({ stderr: stream, env, now: () => 0 }, 'Uploading');
      progress.update(1, 2);
      progress.end();
      assert.equal(stream.read(), '');
    }
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatBytes, formatCharge, formatNumber, formatRuntime } from '../../src/domain/format-amount.ts';

describe('amounts for people', () => {
  test('have a unit that fits their size', () => {
    assert.deepEqual(
      [0, 1, 59, 60, 360, 3599, 3600, 86_400, 1_415_577_600, -90].map((seconds) => formatCharge(seconds, 'core')),
      [
        ...['0 core-h', '1 core-s', '59 core-s', '1 core-min', '6 core-min', '60 core-min', '1 core-h', '24 core-h'],
        ...['393,000 core-h', '-1.5 core-min'],
      ],
    );
    assert.deepEqual([formatCharge(7200, 'node'), formatCharge(7200, 'wall')], ['2 node-h', '2 h']);
    assert.deepEqual([0, 723, 999, 1000, 9_999, 35_640, 999_499, 999_999, 1e10, 2 ** 50, -1500].map(formatBytes), [
      '0 B',
      '723 B',
      '999 B',
      '1 kB',
      '10 kB',
      '35.6 kB',
      '999 kB',
      '1 MB',
      '10 GB',
      '1.13 PB',
      '-1.5 kB',
    ]);
  });

  test('have at most three digits that matter', () => {
    const formats = [formatNumber, formatBytes, formatRuntime, (value: number) => formatCharge(value, 'core')];
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e15, noNaN: true }), fc.constantFrom(...formats), (value, format) => {
        const digits = format(value).replace(/[^\d.]/g, '');
        const significant = digits.includes('.') ? digits : digits.replace(/0+$/, '');
        assert.ok(significant.replace('.', '').replace(/^0+/, '').length <= 3, format(value));
      }),
    );
  });

  test('of a runtime that fits are never rounded up', () => {
    assert.deepEqual([0, 0.5, 0.6102777777777778, 0.57, 47.99, 1234.5].map(formatRuntime), [
      '0 h',
      '0.5 h',
      '0.61 h',
      '0.57 h',
      '47.9 h',
      '1,230 h',
    ]);
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseDurationMs } from '../../src/cli/operator/accounts/duration.ts';
import { BursarError } from '../../src/domain/errors.ts';

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };
const centuryMs = 100 * unitMs.y;

test('parseDurationMs parses a number with a unit', () => {
  assert.deepEqual(
    ['1m', '90m', '12h', '30d', '52w', '1y', '007d'].map(parseDurationMs),
    [60_000, 5_400_000, 43_200_000, 2_592_000_000, 31_449_600_000, 31_536_000_000, 604_800_000],
  );
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 999_999 }),
      fc.constantFrom(...Object.entries(unitMs)),
      (amount, [unit, ms]) => {
        fc.pre(amount * ms <= centuryMs);
        assert.equal(parseDurationMs(`${amount}${unit}`), amount * ms);
      },
    ),
  );
});

test('parseDurationMs rejects everything else and shows the accepted forms', () => {
  const invalid = [
    '',
    'm',
    '1',
    '0m',
    '000d',
    '-1h',
    '+1h',
    '1.5h',
    '1 h',
    ' 1h',
    '1h ',
    '1H',
    '1s',
    '1min',
    '1h30m',
    '1e3h',
  ];
  for (const text of [
    ...invalid,
    '1000000h',
    '101y',
    '999999d',
    '1month',
    'never',
    '\u0661h',
    '1h\n',
    '1constructor',
  ]) {
    assert.throws(
      () => parseDurationMs(text),
      (error) =>
        error instanceof BursarError && error.code === 'invalid_argument' && /90m, 12h, 30d/.test(error.message),
      JSON.stringify(text),
    );
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAmount } from '../../web/src/features/admin/projects/parse-amount.ts';

test('amounts with groups of three digits are read, and a decimal comma is refused', () => {
  const hours = (text: string) => {
    const seconds = parseAmount(text, 'time');
    return seconds === undefined ? undefined : seconds / 3600;
  };
  assert.deepEqual(
    ['100', ' 0.5 ', '.5', '1,000', '1 000', '12,345,678', '1,000.5'].map(hours),
    [100, 0.5, 0.5, 1000, 1000, 12_345_678, 1000.5],
  );
  for (const text of ['1,5', '0,5', '1,00', '1,0000', '1,000,5', '1 5', '1,000 000', '-1', '1e3', '', '0'])
    assert.equal(hours(text), undefined, text);
});

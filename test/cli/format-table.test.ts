import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatTable } from '../../src/cli/operator/format-table.ts';

test('a table shows control characters of names, instead of having the terminal run them', () => {
  const table = formatTable([
    ['ID', 'NAME', 'STATE'],
    ['7', 'a\u001b]0;title\u0007\nb\u009b', 'valid'],
  ]);
  assert.deepEqual(table.split('\n'), [
    'ID  NAME                            STATE',
    '7   a\\u001b]0;title\\u0007\\nb\\u009b  valid',
    '',
  ]);
});

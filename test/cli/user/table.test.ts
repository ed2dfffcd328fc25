import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maxTableRows, selectRows } from '../../../src/cli/user/terminal/select-rows.ts';
import { createStyle } from '../../../src/cli/user/terminal/style.ts';
import { type Column, formatTable } from '../../../src/cli/user/terminal/table.ts';
import { textWidth } from '../../../src/cli/user/terminal/text.ts';

const style = createStyle(false);

describe('a table', () => {
  const fixed = (title: string): Column<string> => ({ title, value: (row) => `${row}-${title}` });
  const flexible = (title: string): Column<string> => ({
    ...fixed(title),
    value: () => 'x'.repeat(40),
    flexible: true,
  });
  const columns = [fixed('first'), flexible('second'), fixed('third'), flexible('fourth'), flexible('fifth')];
  const format = (width: number | undefined) => formatTable(['a', 'b'], columns, { columns: width, style }).split('\n');

  test('shortens flexible columns, and leaves the last ones out, to fit the terminal', () => {
    for (const width of [200, 80, 45, 40, 34, 30]) {
      const [titles = '', row = ''] = format(width);
      assert.ok(textWidth(row) <= width, `${width}: ${row}`);
      assert.match(titles, /^first .*third/);
    }
    assert.match(format(80)[0] ?? '', /fourth +fifth$/);
    assert.doesNotMatch(format(34)[0] ?? '', /fifth/);
    assert.match(format(34)[0] ?? '', /second/);
  });

  test('has all columns in a pipe', () => {
    assert.equal(format(undefined)[0], 'first\tsecond\tthird\tfourth\tfifth');
  });
});

test('a live view that is higher than the terminal shows the rows of the lowest rank, in their order', () => {
  const rows = [5, 1, 4, 2, 3];
  assert.deepEqual(
    selectRows(rows, 3, (row) => row),
    [1, 2, 3],
  );
  assert.deepEqual(
    selectRows(rows, 5, (row) => row),
    rows,
  );
  assert.equal(maxTableRows(24, 4), 20);
  assert.equal(maxTableRows(2, 4), 3);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCsv } from '../../web/src/features/jobs/job/files/parse-csv.ts';
import { createLogBuffer } from '../../web/src/features/jobs/job/log/log-buffer.ts';
import { createLogSearch, splitAtMatches } from '../../web/src/features/jobs/job/log/log-search.ts';
import { toPlainLine } from '../../web/src/features/jobs/job/log/plain-text.ts';
import { layoutRows } from '../../web/src/features/jobs/job/log/row-layout.ts';

const bytesOf = (text: string) => new TextEncoder().encode(text);

test('escape sequences and overwritten texts leave what a terminal shows', () => {
  assert.equal(toPlainLine('\x1b[1;31mred\x1b[0m\r'), 'red');
  assert.equal(toPlainLine('10%\r20%\r100%'), '100%');
  assert.equal(toPlainLine('\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 \x1b(B end\x1b'), 'link  end');
  assert.equal(toPlainLine('a\tb\tc'), 'a       b       c');
  assert.equal(toPlainLine('\tx\0\x07y'), '        xy');
});

test('a log in parts of any size gives the same lines', () => {
  const text = 'first\n\nthird é😀\n\x1b[32mgreen\x1b[0m\nlast without end';
  const bytes = bytesOf(text);
  for (let size = 1; size <= bytes.length; size++) {
    const buffer = createLogBuffer(0);
    for (let offset = 0; offset < bytes.length; offset += size) buffer.append(bytes.subarray(offset, offset + size));
    assert.deepEqual(buffer.lines, ['first', '', 'third é😀', 'green', 'last without end'], `parts of ${size}`);
    assert.equal(buffer.end, bytes.length);
    assert.equal(buffer.firstNumber, 1);
  }
});

test('a log from its middle begins with a whole line, and earlier parts join without a gap', () => {
  const bytes = bytesOf(Array.from({ length: 30 }, (_, index) => `line ${index + 1}\n`).join(''));
  const buffer = createLogBuffer(100);
  buffer.append(bytes.subarray(100, 103));
  buffer.append(bytes.subarray(103));
  assert.equal(buffer.firstNumber, undefined);
  assert.match(buffer.lines[0] ?? '', /^line \d+$/);
  while (buffer.start > 0) buffer.prepend(bytes.subarray(Math.max(0, buffer.start - 50), buffer.start));
  assert.deepEqual(
    buffer.lines,
    Array.from({ length: 30 }, (_, index) => `line ${index + 1}`),
  );
  assert.equal(buffer.firstNumber, 1);
});

test('one line without end, and millions of lines, need limited memory', () => {
  const buffer = createLogBuffer(0);
  for (let index = 0; index < 40; index++) buffer.append(bytesOf('x'.repeat(10_000)));
  assert.equal(buffer.lines.length, 1);
  assert.match(buffer.lines[0] ?? '', /download the log/);
  const many = createLogBuffer(0);
  for (let index = 0; index < 60; index++) many.append(bytesOf('y\n'.repeat(10_000)));
  assert.ok(many.lines.length < 560_000);
  assert.equal((many.firstNumber ?? 0) + many.lines.length, 600_001);
  assert.equal(many.canPrepend, false);
  const wide = createLogBuffer(0);
  for (let index = 0; index < 30; index++) wide.append(bytesOf(`${'z'.repeat(39_999)}\n`.repeat(20)));
  assert.ok(wide.lines.length * 39_999 < 23_000_000);
  assert.equal((wide.firstNumber ?? 0) + wide.lines.length, 601);
});

test('rows of wrapped lines have all of their text, and are found again', () => {
  const lines = ['short', 'x'.repeat(25), '', `${'a'.repeat(9)}😀tail`];
  const layout = layoutRows(lines, 10);
  const rows = Array.from({ length: layout.rowCount }, (_, row) => [layout.lineAt(row), layout.textAt(row)] as const);
  const joined = lines.map((_, line) => rows.flatMap(([of, text]) => (of === line ? [text] : [])).join(''));
  assert.deepEqual(joined, lines);
  assert.deepEqual(
    lines.map((_, line) => layout.rowOf(line)),
    [0, 1, 4, 5],
  );
  assert.equal(layoutRows(lines, undefined).rowCount, lines.length);
});

test('a search takes text literally, ignores case, and finds lines that came later', () => {
  const lines = ['a.b', 'aXb', 'A.B again'];
  const search = createLogSearch('a.b');
  assert.deepEqual([...search.update(lines, 0)], [0, 2]);
  lines.push('last a');
  assert.deepEqual([...search.update(lines, 0)], [0, 2]);
  lines[3] = 'last a.b';
  assert.deepEqual([...search.update(lines, 0)], [0, 2, 3]);
  assert.deepEqual([...search.update(['earlier', ...lines], 1)], [1, 3, 4]);
  assert.deepEqual(splitAtMatches('x A.B y', 'a.b'), ['x ', 'A.B', ' y']);
});

test('CSV with quotes, other separators and too many rows', () => {
  assert.deepEqual(parseCsv('a,b\r\n"1,""x""\ny",2\n', 10), {
    header: ['a', 'b'],
    rows: [['1,"x"\ny', '2']],
    isCut: false,
  });
  assert.deepEqual(parseCsv('a\tb\n1\t2\n3\t4', 1), { header: ['a', 'b'], rows: [['1', '2']], isCut: true });
});

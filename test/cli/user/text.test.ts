import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Job } from '#client';
import type { CommandError } from '../../../src/cli/user/errors.ts';
import { parseBeginning, selectJob } from '../../../src/cli/user/job/find-job.ts';
import { shortIds } from '../../../src/cli/user/job/job-columns.ts';
import { parseSince, parseUntil } from '../../../src/cli/user/job/parse-since.ts';
import { parseRuntimeHours } from '../../../src/cli/user/submit/settings.ts';
import { createStyle } from '../../../src/cli/user/terminal/style.ts';
import { type Column, formatTable } from '../../../src/cli/user/terminal/table.ts';
import { escapeLog, escapeText, shorten, textWidth } from '../../../src/cli/user/terminal/text.ts';
import { formatDuration, formatExactNumber, relativeTime } from '../../../src/cli/user/terminal/time.ts';

const plain = createStyle(false);
const coloured = createStyle(true);

describe('the text of tables', () => {
  interface Row {
    name: string;
    size: number;
  }
  const columns: Column<Row>[] = [
    { title: 'Name', value: ({ name }) => name, flexible: true },
    { title: 'Size', value: ({ size }) => `${size} B`, plain: ({ size }) => String(size), align: 'right' },
    { title: 'Full Name', value: ({ name }) => name, flexible: true },
  ];

  test('is aligned on a terminal, without spaces at the ends of lines', () => {
    assert.equal(
      formatTable(
        [
          { name: 'a', size: 5 },
          { name: '表', size: 12 },
        ],
        columns,
        { columns: 80, style: plain },
      ),
      'Name  Size  Full Name\na      5 B  a\n表    12 B  表\n',
    );
  });

  test('fits every width that leaves six columns to each flexible one, and shortens the widest', () => {
    const rows = [
      { name: 'a long name '.repeat(5), size: 1 },
      { name: '表題'.repeat(20), size: 2 },
    ];
    for (let width = 24; width < 150; width++)
      for (const line of formatTable(rows, columns, { columns: width, style: coloured }).split('\n'))
        assert.ok(textWidth(line) <= width, `${width}: ${line}`);
    const uneven: Column<Row>[] = [
      { title: 'A', value: () => 'x'.repeat(30), flexible: true },
      { title: 'B', value: () => 'y'.repeat(8), flexible: true },
    ];
    const [, line] = formatTable([{ name: '', size: 0 }], uneven, { columns: 20, style: plain }).split('\n');
    assert.equal(line, `${'x'.repeat(9)}…  ${'y'.repeat(8)}`);
  });

  test('is separated by tabs in a pipe, with plain values, and no value adds a line or a cell', () => {
    assert.equal(
      formatTable([{ name: 'a\tb\nc', size: 5 }], columns, { columns: undefined, style: coloured }),
      'name\tsize\tfull_name\na\\tb\\nc\t5\ta\\tb\\nc\n',
    );
    assert.equal(formatTable([], columns, { columns: undefined, style: plain }), 'name\tsize\tfull_name\n');
  });
});

describe('text of the server', () => {
  test('cannot move the cursor, run an escape sequence or turn the direction of text', () => {
    assert.equal(escapeText('a\u001b]0;x\u0007b\r\u202ec\u009b1m'), 'a\\u001b]0;x\\u0007b\\r\\u202ec\\u009b1m');
    assert.equal(escapeText('Grüße 表題 👩‍🔬'), 'Grüße 表題 👩‍🔬');
  });

  test('of a log keeps its lines and colours alone', () => {
    assert.equal(escapeLog('\u001b[1;31mred\u001b[0m\tx\r\n'), '\u001b[1;31mred\u001b[0m\tx\r\n');
    assert.equal(escapeLog('\u001b[2J\u001b[31;'), '\\u001b[2J\\u001b[31;');
  });

  test('has the width that a terminal gives it', () => {
    for (const [text, width] of [
      ['', 0],
      ['abc', 3],
      ['\u001b[31mabc\u001b[39m', 3],
      ['é', 1],
      ['e\u0301', 1],
      ['表題', 4],
      ['👩‍🔬', 2],
      ['❤️', 2],
    ] as const)
      assert.equal(textWidth(text), width, text);
  });

  test('is shortened at a whole character, and keeps its colours', () => {
    assert.equal(shorten('abcdef', 6), 'abcdef');
    assert.equal(shorten('abcdef', 4), 'abc…');
    assert.equal(shorten('表題表題', 4), '表…');
    assert.equal(shorten('\u001b[31mabcdef\u001b[39m', 3), '\u001b[31mab…\u001b[39m');
    assert.equal(shorten('abc', 1), '…');
    assert.equal(shorten('abc', 0), '');
  });
});

describe('times and numbers', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  const before = (seconds: number) => relativeTime(now - seconds * 1000, now);

  test('are relative in the largest unit', () => {
    assert.deepEqual([0, 1, 59, 60, 3599, 3600, 86_399, 86_400, 864_000].map(before), [
      ...['now', '1 s ago', '59 s ago', '1 min ago', '59 min ago', '1 h ago', '23 h ago', '1 d ago', '10 d ago'],
    ]);
    assert.equal(relativeTime('2026-03-01T14:30:00Z', now), 'in 2 h');
  });

  test('of durations have the two largest units', () => {
    assert.deepEqual([0, 0.4, 1, 61, 3600, 3900, 90_000, 86_460].map(formatDuration), [
      ...['0 s', '0 s', '1 s', '1 min 1 s', '1 h', '1 h 5 min', '1 d 1 h', '1 d'],
    ]);
    for (const [runtime, text] of [
      ['5m', '5 min'],
      ['40m', '40 min'],
      ['0:20:07', '20 min 7 s'],
      ['1s', '1 s'],
    ] as const)
      assert.equal(formatDuration(parseRuntimeHours(runtime) * 3600), text);
  });

  test('have separators, one decimal and no negative zero', () => {
    assert.deepEqual([4976, 4999.96, -3600, -0.01, 0.25].map(formatExactNumber), [
      '4,976',
      '5,000',
      '-3,600',
      '0',
      '0.3',
    ]);
  });

  test('before now are parsed from a number and a unit, or a date', () => {
    assert.equal(parseSince('90m', now), '2026-03-01T10:30:00.000Z');
    assert.equal(parseSince('2w', now), '2026-02-15T12:00:00.000Z');
    assert.equal(parseSince('2026-01-31', now), '2026-01-31T00:00:00.000Z');
    for (const text of ['', '7', '7y', '-7d', 'soon'])
      assert.throws(() => parseSince(text, now), /is not a time/, text);
  });

  test('from now on are parsed in the same way', () => {
    assert.equal(parseUntil('90m', now), '2026-03-01T13:30:00.000Z');
    assert.equal(parseUntil('30d', now), '2026-03-31T12:00:00.000Z');
    assert.equal(parseUntil('2026-12-31', now), '2026-12-31T00:00:00.000Z');
    assert.throws(() => parseUntil('soon', now), /is not a time/);
  });
});

describe('the name of a job', () => {
  const job = (id: number, jobId: string) => ({ id, job_id: jobId, stage: 'RUNNING', title: `job ${id}` }) as Job;
  const jobs = [job(4, 'AB12-34'), job(3, 'AB12-3'), job(1, 'AB12-1')];

  test('is the beginning of its id, or the whole id, which wins over the beginnings of others', () => {
    assert.equal(selectJob([job(2, 'CD34-1')], false, 'cd').id, 2);
    assert.equal(selectJob(jobs, false, 'ab12-3').id, 3);
    assert.deepEqual(['CD3…', 'CD3...', 'cd'].map(parseBeginning), ['CD3', 'CD3', 'cd']);
  });

  test('that several jobs begin with is refused, with the newest candidates', () => {
    assert.throws(
      () => selectJob(jobs, false, 'ab'),
      ({ exit, message, nextStep }: CommandError) => {
        assert.deepEqual([exit, message], ['usage', '3 jobs begin with "ab". Write more of the id:']);
        assert.equal(nextStep, '  AB12-34  RUNNING  job 4\n  AB12-3  RUNNING  job 3\n  AB12-1  RUNNING  job 1');
        return true;
      },
    );
    assert.throws(() => selectJob(jobs, true, 'ab'), /^.*More than 3 jobs begin with "ab"/);
  });

  test('that is empty or unknown is refused', () => {
    assert.throws(
      () => parseBeginning('…'),
      ({ exit }: CommandError) => exit === 'usage',
    );
    assert.throws(() => selectJob([], false, 'EF'), /no job whose id begins with "EF"/);
  });

  test('is shown with as many characters as it needs, and at least eight', () => {
    const list = [job(1, 'AAAAAAAAAA-1'), job(2, 'AAAAAAAAAA-2'), job(3, 'BBBBBBBBBBBB')];
    assert.deepEqual([...shortIds(list).values()], ['AAAAAAAAAA-1', 'AAAAAAAAAA-2', 'BBBBBBBB']);
  });
});

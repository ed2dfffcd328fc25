import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isRangeValid, isUnchanged, parseRange } from '../../../src/http/request/preconditions.ts';

describe('a Range of ten bytes', () => {
  const part = (start: number, length: number) => ({ kind: 'part', start, length });
  const whole = { kind: 'whole' };
  const unsatisfiable = { kind: 'unsatisfiable' };
  for (const [header, verdict] of [
    [undefined, whole],
    ['bytes=0-0', part(0, 1)],
    ['bytes=0-9', part(0, 10)],
    ['bytes=0-', part(0, 10)],
    ['bytes=9-', part(9, 1)],
    ['bytes=3-5', part(3, 3)],
    ['bytes=3-500', part(3, 7)],
    ['BYTES=3-5', part(3, 3)],
    ['bytes= 3-5 ', part(3, 3)],
    ['bytes=-1', part(9, 1)],
    ['bytes=-10', part(0, 10)],
    ['bytes=-500', part(0, 10)],
    ['bytes=-0', unsatisfiable],
    ['bytes=10-', unsatisfiable],
    ['bytes=10-20', unsatisfiable],
    ['bytes=99999999999999999999-', unsatisfiable],
    ['bytes=5-3', whole],
    ['bytes=-', whole],
    ['bytes=', whole],
    ['bytes=a-b', whole],
    ['bytes=0x1-2', whole],
    ['bytes=1-2,4-5', whole],
    ['bytes=+1-2', whole],
    ['lines=1-2', whole],
    ['', whole],
  ] as const) {
    test(`"${header}" is ${JSON.stringify(verdict)}`, () => assert.deepEqual(parseRange(header, 10), verdict));
  }

  test('every range of an empty file is unsatisfiable', () => {
    for (const header of ['bytes=0-', 'bytes=0-0', 'bytes=-1']) assert.deepEqual(parseRange(header, 0), unsatisfiable);
    assert.deepEqual(parseRange(undefined, 0), whole);
  });
});

describe('preconditions', () => {
  const modifiedAt = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
  const strong = { etag: '"a"', modifiedAt };
  const weak = { etag: 'W/"a"', modifiedAt };
  const date = 'Fri, 02 Jan 2026 03:04:05 GMT';

  test('If-None-Match matches weak and strong tags, alone or in a list', () => {
    for (const tags of ['"a"', 'W/"a"', '"x", "a"', '"x",W/"a" ,"y"', '*']) {
      assert.ok(isUnchanged({ 'if-none-match': tags }, strong), tags);
      assert.ok(isUnchanged({ 'if-none-match': tags }, weak), tags);
    }
    for (const tags of ['"b"', 'a', '""', 'W/"b"', '"A"']) {
      assert.ok(!isUnchanged({ 'if-none-match': tags }, strong), tags);
    }
  });

  test('If-Modified-Since is used only without If-None-Match', () => {
    assert.ok(isUnchanged({ 'if-modified-since': date }, strong));
    assert.ok(isUnchanged({ 'if-modified-since': 'Fri, 02 Jan 2026 03:04:06 GMT' }, strong));
    assert.ok(!isUnchanged({ 'if-modified-since': 'Fri, 02 Jan 2026 03:04:04 GMT' }, strong));
    assert.ok(!isUnchanged({ 'if-modified-since': 'yesterday' }, strong));
    assert.ok(!isUnchanged({ 'if-modified-since': date, 'if-none-match': '"b"' }, strong));
    assert.ok(!isUnchanged({}, strong));
  });

  test('If-Range matches only if the bytes are exactly the same', () => {
    assert.ok(isRangeValid(undefined, weak));
    for (const ifRange of ['"a"', date]) {
      assert.ok(isRangeValid(ifRange, strong));
      assert.ok(!isRangeValid(ifRange, weak));
    }
    for (const ifRange of ['"b"', 'W/"a"', 'Fri, 02 Jan 2026 03:04:06 GMT', '']) {
      assert.ok(!isRangeValid(ifRange, strong), ifRange);
    }
  });
});

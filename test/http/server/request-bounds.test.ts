import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRequestBounds } from '../../../src/http/server/request-bounds.ts';

const get = 'GET /jobs/ HTTP/1.1\r\nHost: bursar\r\n\r\n';
const post = (...lines: string[]) => ['POST /jobs/ HTTP/1.1', 'Host: bursar', ...lines, '', ''].join('\r\n');

/** Whether a request begins after each of these pieces. */
function starts(...pieces: string[]): boolean[] {
  const bounds = createRequestBounds();
  return pieces.map((piece) => {
    bounds.pass(Buffer.from(piece, 'latin1'));
    return bounds.atStart();
  });
}

describe('where the requests of a connection begin', () => {
  test('at its start, and after every head without a body', () => {
    assert.equal(createRequestBounds().atStart(), true);
    assert.deepEqual(starts(get, get, get), [true, true, true]);
    assert.deepEqual(starts(`\r\n${get}`, get), [true, true], 'an empty line before it is nothing');
  });

  test('after the last byte of a body, wherever the pieces end', () => {
    assert.deepEqual(starts(post('Content-Length: 4'), 'ab', 'cd', get), [false, false, true, true]);
    assert.deepEqual(starts(`${post('content-length:\t4 ')}abcd`, get), [true, true]);
    assert.deepEqual(starts(`${post('CONTENT-LENGTH:4')}abc`, 'd'), [false, true]);
    assert.deepEqual(starts(post('Content-Length: 0'), get), [true, true]);
  });

  test('nowhere any more after what cannot be told without understanding it', () => {
    const lost: [string, string][] = [
      ['half a head', 'GET /jobs/ HTTP/1.1\r\nX: '],
      ['two requests in one', get + get],
      ['one and a half', get + get.slice(0, 10)],
      ['empty lines before it', `\r\n\r\n${get}`],
      ['lines that end in half', get.replaceAll('\r\n', '\n')],
      ['chunks', post('Transfer-Encoding: chunked')],
      ['chunks and a length', post('Content-Length: 4', 'Transfer-Encoding: chunked')],
      ['two lengths', post('Content-Length: 4', 'Content-Length: 4')],
      ['no number', post('Content-Length: four')],
      ['a sign', post('Content-Length: +4')],
      ['a list', post('Content-Length: 4, 4')],
      ['a line that goes on', post('Content-Length:\r\n 4')],
      ['a length that nobody sends', post(`Content-Length: ${'9'.repeat(16)}`)],
      ['more than the body', `${post('Content-Length: 4')}abcde`],
      ['a length in another header', post('X-Of: content-length')],
    ];
    for (const [what, piece] of lost) assert.deepEqual(starts(piece, get, 'abcd', get), Array(4).fill(false), what);
    assert.deepEqual(starts(post('Content-Length: 4'), 'abcde', get), [false, false, false]);
  });
});

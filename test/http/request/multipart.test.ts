import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { before, describe, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { multipartFile } from '../../../src/http/request/submission.ts';
import { boundary, formatForm, formatPart, formType, type Part } from '../bad-input/multipart.ts';
import { createValidZip } from '../bad-input/valid-zip.ts';

// The tables for multipart forms. test/http/bad-input sends one form for each rule through HTTP.

const [, contentType] = formType;
let zip: Buffer;
before(async () => {
  zip = await createValidZip();
});

/** The form arrives in chunks that do not end where its parts do. */
async function parse(body: string | Uint8Array, type = contentType): Promise<Buffer> {
  const bytes = Buffer.from(body);
  const chunks = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, i) =>
    bytes.subarray(i * 1000, i * 1000 + 1000),
  );
  return await buffer(multipartFile(Readable.from(chunks, { objectMode: false }), type));
}

async function assertRejected(body: string | Uint8Array, message: RegExp, type = contentType): Promise<void> {
  await assert.rejects(parse(body, type), (error) => {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_body');
    assert.match(error.message, message);
    return true;
  });
}

describe('multipartFile', () => {
  test('returns the content of the only file', async () => {
    assert.deepEqual(await parse(formatForm(['file', 'job.zip', zip])), zip);
    assert.deepEqual(await parse(formatForm(['other', 'x', 'hello'])), Buffer.from('hello'));
  });

  const cases: [string, () => string | Uint8Array, RegExp][] = [
    ['without a file', () => formatForm(), /no file|malformed/],
    ['with a field only', () => formatForm(['title', null, 'x']), /field "title"/],
    ['with a field before the file', () => formatForm(['title', null, 'x'], ['file', 'job.zip', zip]), /field "title"/],
    ['with a field after the file', () => formatForm(['file', 'job.zip', zip], ['title', null, 'x']), /field "title"/],
    ['with two files', () => formatForm(['file', 'job.zip', zip], ['file', 'job.zip', zip]), /more than one file/],
    ['with thirty files', () => formatForm(...Array<Part>(30).fill(['file', 'job.zip', zip])), /more than one file/],
    ['with thirty fields', () => formatForm(...Array<Part>(30).fill(['title', null, 'x'])), /field "title"/],
    ['with a field of 100 kB', () => formatForm(['title', null, 'x'.repeat(100_000)]), /field "title"/],
    [
      'with another boundary',
      () => formatForm(['file', 'job.zip', zip]).toString('latin1').replaceAll(boundary, 'y'),
      /form/,
    ],
    ['with a boundary that is cut short', () => formatForm(['file', 'job.zip', zip]).subarray(5), /form/],
    [
      'that is cut off in its file',
      () => formatForm(['file', 'job.zip', zip]).subarray(0, 200),
      /malformed or incomplete/,
    ],
    ['that is cut off in its headers', () => formatForm(['file', 'job.zip', zip]).subarray(0, 50), /form/],
    ['that lacks its end', () => formatPart(['file', 'job.zip', zip]), /malformed or incomplete/],
    ['that is the zip itself', () => zip, /form/],
    ['that is text', () => 'hello', /form/],
    ['that is empty', () => '', /form/],
    ['that is its end alone', () => `--${boundary}--\r\n`, /form/],
    ['with a part without headers', () => `--${boundary}\r\n\r\nhello\r\n--${boundary}--\r\n`, /form/],
    [
      'with a part of another disposition',
      () => `--${boundary}\r\ncontent-disposition: attachment; filename=a.zip\r\n\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
    [
      'with part headers of 100 kB',
      () => `--${boundary}\r\nx: ${'y'.repeat(100_000)}\r\n\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
    [
      'with ten thousand part headers',
      () => `--${boundary}\r\n${'x: y\r\n'.repeat(10_000)}\r\nhello\r\n--${boundary}--\r\n`,
      /form/,
    ],
  ];
  for (const [name, body, message] of cases) {
    test(`rejects a form ${name}`, () => assertRejected(body(), message));
  }

  for (const type of [
    'multipart/form-data',
    'multipart/form-data;',
    'multipart/form-data; boundary',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary=""',
    'Multipart/Form-Data; charset=utf-8',
  ]) {
    test(`rejects the type ${type}`, () =>
      assertRejected(formatForm(['file', 'job.zip', zip]), /boundary|malformed/, type));
  }

  test('rejects a boundary of 10 kB', async () => {
    await assertRejected(
      formatForm(['file', 'job.zip', zip]),
      /form/,
      `multipart/form-data; boundary=${'b'.repeat(10_000)}`,
    );
  });

  test('reads the rest of the form when its consumer stops early', async () => {
    const bytes = formatForm(['file', 'job.zip', Buffer.alloc(1_000_000)]);
    const chunks = Array.from({ length: 100 }, (_, i) => bytes.subarray(i * 20_000, (i + 1) * 20_000));
    const body = Readable.from(chunks, { objectMode: false });
    const ended = once(body, 'end');
    for await (const chunk of multipartFile(body, contentType)) if (chunk.length > 0) break;
    await ended;
  });
});

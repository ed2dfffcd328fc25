import { after, afterEach, before, describe, test } from 'node:test';
import { assertCleanLog } from '../../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, type TraceWatch, watchTraces } from '../../support/refusals.ts';
import type { TestServer } from '../../support/server.ts';
import { type HeaderLine, headOf, openWire } from '../../support/wire.ts';
import { boundary, form, formType, type Part, partOf } from './multipart.ts';
import { bodySender, codeIn, endings, goodZip, path, startSmallServer } from './send-body.ts';

// A body that says that it is a form, and is not one with a zip in it.

let server: TestServer;
let traces: TraceWatch;
let zip: Buffer;
before(async () => {
  zip = await goodZip();
  server = await startSmallServer();
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const { headers, submit, sendHalf } = bodySender(() => server);

describe('a multipart form', () => {
  const cases: [string, () => string | Uint8Array, RegExp][] = [
    ['without a file', () => form(), /no file|broken/],
    ['with a field only', () => form(['title', null, 'x']), /field "title"/],
    ['with a field before the file', () => form(['title', null, 'x'], ['file', 'job.zip', zip]), /field "title"/],
    ['with a field after the file', () => form(['file', 'job.zip', zip], ['title', null, 'x']), /field "title"/],
    ['with two files', () => form(['file', 'job.zip', zip], ['file', 'job.zip', zip]), /more than one file/],
    ['with thirty files', () => form(...Array<Part>(30).fill(['file', 'job.zip', zip])), /more than one file/],
    ['with thirty fields', () => form(...Array<Part>(30).fill(['title', null, 'x'])), /field "title"/],
    ['with a field of 100 kB', () => form(['title', null, 'x'.repeat(100_000)]), /field "title"/],
    [
      'with another boundary',
      () => form(['file', 'job.zip', zip]).toString('latin1').replaceAll(boundary, 'y'),
      /form/,
    ],
    ['with a boundary that is cut short', () => form(['file', 'job.zip', zip]).subarray(5), /form/],
    ['that is cut off in its file', () => form(['file', 'job.zip', zip]).subarray(0, 200), /broken|cut off/],
    ['that is cut off in its headers', () => form(['file', 'job.zip', zip]).subarray(0, 50), /form/],
    ['that lacks its end', () => partOf(['file', 'job.zip', zip]), /broken|cut off/],
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
  for (const [name, body, says] of cases) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(body(), formType), { status: 400, code: 'invalid_body', says });
    });
  }

  test('whose file is no zip is refused', async () => {
    const answer = await submit(form(['file', 'job.zip', 'hello']), formType);
    assertProblem(answer, { status: 400, code: 'invalid_zip', says: /not a zip/ });
  });

  for (const type of [
    'multipart/form-data',
    'multipart/form-data;',
    'multipart/form-data; boundary',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary=""',
    'Multipart/Form-Data; charset=utf-8',
  ]) {
    test(`of the type ${type} is refused`, async () => {
      const answer = await submit(form(['file', 'job.zip', zip]), ['content-type', type]);
      assertProblem(answer, { status: 400, code: 'invalid_body', says: /boundary|broken/ });
    });
  }

  test('with a boundary of 10 kB is refused', async () => {
    const type = `multipart/form-data; boundary=${'b'.repeat(10_000)}`;
    const answer = await submit(form(['file', 'job.zip', zip]), ['content-type', type]);
    assertProblem(answer, { status: 400, code: 'invalid_body', says: /form/ });
  });

  for (const [name, ending, bodyOf] of endings) {
    test(`that ${name} half-way is refused`, async () => {
      const bytes = form(['file', 'job.zip', await bodyOf()]);
      const wire = await openWire(server.url);
      const more: HeaderLine[] = [formType, ['content-length', String(bytes.length)]];
      await sendHalf(wire, headOf({ method: 'POST', path, headers: headers(...more) }), bytes);
      wire[ending]();
      for (const answer of await wire.closed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });
  }
});

test('every one of these refusals says what to do', () => assertAllGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

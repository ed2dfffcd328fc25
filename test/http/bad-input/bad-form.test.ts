import { after, afterEach, before, describe, test } from 'node:test';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { formatRequestHead, type HeaderLine, openRawConnection } from '../../support/raw-http.ts';
import type { TestServer } from '../../support/server.ts';
import { formatForm, formType } from './multipart.ts';
import { createBodySender, earlyEnds, getCode, path, startSmallServer } from './send-body.ts';
import { createValidZip } from './valid-zip.ts';

// Bodies with the Content-Type of a form that are not a form with one zip.

let server: TestServer;
let state: StateSnapshot;
let zip: Buffer;
before(async () => {
  zip = await createValidZip();
  server = await startSmallServer();
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const { headers, submit, sendHalf } = createBodySender(() => server);

describe('rejects a multipart form', () => {
  // One form for each rule. The table is in test/http/request/multipart.test.ts.
  const cases: [string, () => string | Uint8Array, RegExp][] = [
    ['without a file', () => formatForm(), /no file|malformed/],
    ['with a field before the file', () => formatForm(['title', null, 'x'], ['file', 'job.zip', zip]), /field "title"/],
    ['with a field after the file', () => formatForm(['file', 'job.zip', zip], ['title', null, 'x']), /field "title"/],
    ['with two files', () => formatForm(['file', 'job.zip', zip], ['file', 'job.zip', zip]), /more than one file/],
    [
      'that is cut off in its file',
      () => formatForm(['file', 'job.zip', zip]).subarray(0, 200),
      /malformed or incomplete/,
    ],
    ['that is text', () => 'hello', /form/],
    ['that is empty', () => '', /form/],
  ];
  for (const [name, body, message] of cases) {
    test(name, async () => {
      assertProblem(await submit(body(), formType), { status: 400, code: 'invalid_body', message });
    });
  }

  test('whose file is not a zip', async () => {
    const response = await submit(formatForm(['file', 'job.zip', 'hello']), formType);
    assertProblem(response, { status: 400, code: 'invalid_zip', message: /not a zip/ });
  });

  test('without a boundary in its Content-Type', async () => {
    const response = await submit(formatForm(['file', 'job.zip', zip]), ['content-type', 'multipart/form-data']);
    assertProblem(response, { status: 400, code: 'invalid_body', message: /boundary/ });
  });

  for (const [name, ending, createBody] of earlyEnds) {
    test(`that ${name} half-way`, async () => {
      const bytes = formatForm(['file', 'job.zip', await createBody()]);
      const connection = await openRawConnection(server.url);
      const more: HeaderLine[] = [formType, ['content-length', String(bytes.length)]];
      await sendHalf(connection, formatRequestHead({ method: 'POST', path, headers: headers(...more) }), bytes);
      connection[ending]();
      for (const response of await connection.readUntilClosed())
        assertProblem(response, { status: 400, code: getCode(response) });
    });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});

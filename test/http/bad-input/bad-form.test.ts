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
import { goodZip } from './good-zip.ts';
import { form, formType } from './multipart.ts';
import { bodySender, codeIn, endings, path, startSmallServer } from './send-body.ts';

// A body that says that it is a form, and is not one with a zip in it.

let server: TestServer;
let traces: StateSnapshot;
let zip: Buffer;
before(async () => {
  zip = await goodZip();
  server = await startSmallServer();
  traces = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const { headers, submit, sendHalf } = bodySender(() => server);

describe('a multipart form', () => {
  // One form for each rule. The table is in test/http/request/multipart.test.ts.
  const cases: [string, () => string | Uint8Array, RegExp][] = [
    ['without a file', () => form(), /no file|malformed/],
    ['with a field before the file', () => form(['title', null, 'x'], ['file', 'job.zip', zip]), /field "title"/],
    ['with a field after the file', () => form(['file', 'job.zip', zip], ['title', null, 'x']), /field "title"/],
    ['with two files', () => form(['file', 'job.zip', zip], ['file', 'job.zip', zip]), /more than one file/],
    ['that is cut off in its file', () => form(['file', 'job.zip', zip]).subarray(0, 200), /malformed or incomplete/],
    ['that is text', () => 'hello', /form/],
    ['that is empty', () => '', /form/],
  ];
  for (const [name, body, says] of cases) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(body(), formType), { status: 400, code: 'invalid_body', message: says });
    });
  }

  test('whose file is no zip is refused', async () => {
    const answer = await submit(form(['file', 'job.zip', 'hello']), formType);
    assertProblem(answer, { status: 400, code: 'invalid_zip', message: /not a zip/ });
  });

  test('without a boundary in its type is refused', async () => {
    const answer = await submit(form(['file', 'job.zip', zip]), ['content-type', 'multipart/form-data']);
    assertProblem(answer, { status: 400, code: 'invalid_body', message: /boundary/ });
  });

  for (const [name, ending, bodyOf] of endings) {
    test(`that ${name} half-way is refused`, async () => {
      const bytes = form(['file', 'job.zip', await bodyOf()]);
      const wire = await openRawConnection(server.url);
      const more: HeaderLine[] = [formType, ['content-length', String(bytes.length)]];
      await sendHalf(wire, formatRequestHead({ method: 'POST', path, headers: headers(...more) }), bytes);
      wire[ending]();
      for (const answer of await wire.readUntilClosed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });
  }
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

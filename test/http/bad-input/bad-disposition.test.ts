import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  server = await startServer();
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

/** Sends a submission that is valid except for its Content-Disposition. */
function submit(...dispositions: string[]) {
  const headers: HeaderLine[] = [
    bearerHeader(server.userToken),
    ...dispositions.map((value): HeaderLine => ['content-disposition', value]),
    ['payload', '{"command": "true"}'],
  ];
  return sendRawRequest(server.url, { method: 'POST', path: '/jobs/hpc_one/', headers });
}

const example = 'Send "Content-Disposition: attachment; filename=job.zip".';
const [noAttachment, noName, pathParts, noZip] = [/"attachment"/, /names no file/, /path parts/, /end in \.zip/];

/** One value for each rule. The table is in test/http/request/content-disposition.test.ts. */
const rejected: [string, string, RegExp][] = [
  ['empty', '', noAttachment],
  ['inline', 'inline; filename=job.zip', noAttachment],
  ['without a file name', 'attachment', noName],
  ['with a file that is no zip', 'attachment; filename=job.tar.gz', noZip],
  ['with a path', 'attachment; filename="../x.zip"', pathParts],
  ['with an extended name with an encoded slash', "attachment; filename*=UTF-8''..%2Fx.zip", pathParts],
  ['of 10 kB', `attachment; filename=${'x'.repeat(10_000)}`, noZip],
];

describe('rejects a Content-Disposition', () => {
  test('that is missing', async () => {
    const response = await submit();
    const { detail } = assertProblem(response, {
      status: 400,
      code: 'invalid_content_disposition',
      message: /missing/,
    });
    assert.ok(detail.includes(example), detail);
  });

  for (const [name, value, message] of rejected) {
    test(`that is ${name}`, async () => {
      const response = await submit(value);
      const { detail } = assertProblem(response, {
        status: 400,
        code: 'invalid_content_disposition',
        message,
      });
      assert.ok(detail.includes(example), detail);
    });
  }

  test('that is sent twice', async () => {
    const response = await submit('attachment; filename=a.zip', 'attachment; filename=b.zip');
    assertProblem(response, { status: 400, code: 'invalid_content_disposition' });
  });

  test('or ignores one whose file name has control characters', async () => {
    for (const value of ["attachment; filename*=UTF-8''a%0Ab.zip", "attachment; filename*=UTF-8''%1b[2Ja.zip"]) {
      const response = await submit(value);
      // The name is not used for anything: it may be rejected or ignored.
      if (response.status !== 201) assertProblem(response, { status: 400, code: 'invalid_content_disposition' });
    }
    await state.update();
  });
});

describe('accepts the Content-Disposition', () => {
  for (const value of ['attachment; filename="my job (2).zip"', "attachment; filename*=UTF-8''na%C3%AFve.zip"]) {
    test(value, async () => {
      const response = await submit(value);
      assert.equal(response.status, 201, response.text);
      await state.update();
    });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});

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
let traces: StateSnapshot;
before(async () => {
  server = await startServer();
  traces = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

/** A submission in which nothing but the Content-Disposition can be wrong. */
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
const refused: [string, string, RegExp][] = [
  ['empty', '', noAttachment],
  ['inline', 'inline; filename=job.zip', noAttachment],
  ['without a file name', 'attachment', noName],
  ['with a file that is no zip', 'attachment; filename=job.tar.gz', noZip],
  ['with a path', 'attachment; filename="../x.zip"', pathParts],
  ['with an extended name with an encoded slash', "attachment; filename*=UTF-8''..%2Fx.zip", pathParts],
  ['of 10 kB', `attachment; filename=${'x'.repeat(10_000)}`, noZip],
];

describe('a Content-Disposition that is refused', () => {
  test('is missing', async () => {
    const answer = await submit();
    const { detail } = assertProblem(answer, { status: 400, code: 'invalid_content_disposition', message: /missing/ });
    assert.ok(detail.includes(example), detail);
  });

  for (const [name, value, says] of refused) {
    test(`is ${name}`, async () => {
      const answer = await submit(value);
      const { detail } = assertProblem(answer, { status: 400, code: 'invalid_content_disposition', message: says });
      assert.ok(detail.includes(example), detail);
    });
  }

  test('was sent twice', async () => {
    const answer = await submit('attachment; filename=a.zip', 'attachment; filename=b.zip');
    assertProblem(answer, { status: 400, code: 'invalid_content_disposition' });
  });

  test('has a name with control characters', async () => {
    for (const value of ["attachment; filename*=UTF-8''a%0Ab.zip", "attachment; filename*=UTF-8''%1b[2Ja.zip"]) {
      const answer = await submit(value);
      // The name is not used for anything: it may be refused, and it may be passed over.
      if (answer.status !== 201) assertProblem(answer, { status: 400, code: 'invalid_content_disposition' });
    }
    await traces.update();
  });
});

describe('a Content-Disposition that is accepted', () => {
  for (const value of ['attachment; filename="my job (2).zip"', "attachment; filename*=UTF-8''na%C3%AFve.zip"]) {
    test(value, async () => {
      const answer = await submit(value);
      assert.equal(answer.status, 201, answer.text);
      await traces.update();
    });
  }
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

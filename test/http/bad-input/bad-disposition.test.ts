import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { assertCleanLog } from '../../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, type TraceWatch, watchTraces } from '../../support/refusals.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { ask, bearer, type HeaderLine } from '../../support/wire.ts';

let server: TestServer;
let traces: TraceWatch;
before(async () => {
  server = await startServer();
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

/** A submission in which nothing but the Content-Disposition can be wrong. */
function submit(...dispositions: string[]) {
  const headers: HeaderLine[] = [
    bearer(server.userToken),
    ...dispositions.map((value): HeaderLine => ['content-disposition', value]),
    ['payload', '{"command": "true"}'],
  ];
  return ask(server.url, { method: 'POST', path: '/jobs/hpc_one/', headers });
}

const example = 'Send "Content-Disposition: attachment; filename=job.zip".';
const [noAttachment, noName, pathParts, noZip] = [/"attachment"/, /names no file/, /path parts/, /end in \.zip/];

const refused: [string, string, RegExp][] = [
  ['empty', '', noAttachment],
  ['of spaces', '   ', noAttachment],
  ['inline', 'inline; filename=job.zip', noAttachment],
  ['of a form', 'form-data; name=file; filename=job.zip', noAttachment],
  ['a file name alone', 'job.zip', noAttachment],
  ['a parameter alone', 'filename=job.zip', noAttachment],
  ['without its type', '; filename=job.zip', noAttachment],
  ['with a type that begins the same', 'attachments; filename=job.zip', noAttachment],
  ['without a file name', 'attachment', noName],
  ['without a file name after its semicolon', 'attachment;', noName],
  ['with a name and no file name', 'attachment; name=job.zip', noName],
  ['with an empty file name', 'attachment; filename=', noName],
  ['with an empty file name in quotes', 'attachment; filename=""', noName],
  ['with an empty extended file name', "attachment; filename*=UTF-8''", noName],
  ['with a quote that is not closed', 'attachment; filename="job.zip', noName],
  ['with a file that is no zip', 'attachment; filename=job.tar.gz', noZip],
  ['with a file that has no extension', 'attachment; filename=job', noZip],
  ['with a file that is called zip', 'attachment; filename=zip', noZip],
  ['with an extension alone', 'attachment; filename=.zip', noZip],
  ['with an extension alone in quotes', 'attachment; filename=".zip"', noZip],
  ['with another extension behind', 'attachment; filename=job.zip.exe', noZip],
  ['with a dot behind', 'attachment; filename=job.zip.', noZip],
  ['with a space behind', 'attachment; filename="job.zip "', noZip],
  ['with the extension and no dot', 'attachment; filename=jobzip', noZip],
  ['with a file in the folder above', 'attachment; filename=../x.zip', pathParts],
  ['with a file in the folder above in quotes', 'attachment; filename="../x.zip"', pathParts],
  ['with a file in a folder', 'attachment; filename=a/b.zip', pathParts],
  ['with a file in a folder with a backslash', 'attachment; filename=a\\b.zip', pathParts],
  ['with a file in a folder with a quoted backslash', 'attachment; filename="a\\\\b.zip"', pathParts],
  ['with an absolute path', 'attachment; filename=/etc/cron.d/x.zip', pathParts],
  ['with a drive', 'attachment; filename="C:\\\\x.zip"', pathParts],
  ['with an extended name that is no zip', "attachment; filename*=UTF-8''na%C3%AFve.txt", noZip],
  [
    'with an extended name that is worse than the plain one',
    "attachment; filename=job.zip; filename*=UTF-8''x.exe",
    noZip,
  ],
  ['with an extended name that is an extension alone', "attachment; filename*=UTF-8''.zip", noZip],
  ['with an extended name with an encoded slash', "attachment; filename*=UTF-8''..%2Fx.zip", pathParts],
  ['with an extended name with an encoded backslash', "attachment; filename*=UTF-8''a%5Cb.zip", pathParts],
  ['with an extended name with a NUL', "attachment; filename*=UTF-8''a%00.zip", pathParts],
  ['with an extended name that is not UTF-8', "attachment; filename*=UTF-8''%ff%fe.zip", noName],
  ['with an extended name in an unknown charset', "attachment; filename*=KOI8-R''x.zip", noName],
  ['with an extended name without a charset', 'attachment; filename*=x.zip', noName],
  ['with an extended name with a broken encoding', "attachment; filename*=UTF-8''%zz.zip", noName],
  ['with two files in a list', 'attachment; filename=a.zip, attachment; filename=b.zip', noZip],
  ['of 10 kB', `attachment; filename=${'x'.repeat(10_000)}`, noZip],
  ['of nothing but semicolons', ';'.repeat(10_000), noAttachment],
];

describe('a Content-Disposition that is refused', () => {
  test('is missing', async () => {
    const answer = await submit();
    const { detail } = assertProblem(answer, { status: 400, code: 'invalid_content_disposition', says: /missing/ });
    assert.ok(detail.includes(example), detail);
  });

  for (const [name, value, says] of refused) {
    test(`is ${name}`, async () => {
      const answer = await submit(value);
      const { detail } = assertProblem(answer, { status: 400, code: 'invalid_content_disposition', says });
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
    await traces.accept();
  });
});

describe('a Content-Disposition that is accepted', () => {
  for (const value of [
    'attachment; filename=job.zip',
    'attachment;filename=job.zip',
    'attachment ; filename = job.zip',
    'Attachment; FileName=JOB.ZIP',
    'attachment; filename="job.zip"',
    'attachment; filename="my job (2).zip"',
    'attachment; filename="a\\"b.zip"',
    'attachment; filename=my.job.v1.zip',
    "attachment; filename*=UTF-8''na%C3%AFve.zip",
    "attachment; filename*=utf-8'en'na%C3%AFve.zip",
    "attachment; filename=job.txt; filename*=UTF-8''na%C3%AFve.zip",
    "attachment; filename*=UTF-8''na%C3%AFve.zip; filename=job.txt",
    'attachment; size=10; filename=job.zip; creation-date="today"',
  ]) {
    test(value, async () => {
      const answer = await submit(value);
      assert.equal(answer.status, 201, answer.text);
      await traces.accept();
    });
  }
});

test('every one of these refusals says what to do', () => assertAllGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { requireZipAttachment } from '../../src/contract/submission.ts';
import { BursarError } from '../../src/domain/errors.ts';

// The tables for Content-Disposition. test/http/bad-input sends one value for each rule through HTTP.

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

function rejectionOf(header: string | undefined): BursarError {
  try {
    requireZipAttachment({ contentDisposition: header, payloads: [] });
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_content_disposition');
    assert.ok(error.message.includes(example), error.message);
    return error;
  }
  assert.fail(`accepted: ${header}`);
}

describe('requireZipAttachment', () => {
  test('rejects a missing header', () => {
    assert.match(rejectionOf(undefined).message, /missing/);
  });

  for (const [name, value, says] of refused) {
    test(`rejects a header ${name}`, () => {
      assert.match(rejectionOf(value).message, says);
    });
  }

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
    test(`accepts ${value}`, () => requireZipAttachment({ contentDisposition: value, payloads: [] }));
  }
});

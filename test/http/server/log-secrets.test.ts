import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runFile } from '../../support/command-line.ts';
import { findSecrets } from '../../support/log-secrets.ts';

// The logs of all servers of all tests are checked for secrets. These are the tests of that check.

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ';

test('every kind of secret is found in a line of the log', () => {
  for (const [text, name] of [
    [`{"path":"/jobs/bursar_${letters}/"}`, 'a token or code of Bursar'],
    [`{"code":"bursar_device_${letters}"}`, 'a token or code of Bursar'],
    ['{"cookie":"bursar_session=x"}', 'a session cookie'],
    ['{"err":"eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."}', 'a JSON web token'],
    [`{"authorization":"bearer ${letters}"}`, 'an Authorization header'],
    [`{"secret":"whsec_${letters}"}`, 'the secret of a webhook'],
    [`{"hash":"${'0a'.repeat(32)}"}`, 'a SHA-256 hash'],
    ['{"key":"-----BEGIN RSA PRIVATE KEY-----"}', 'a private key'],
    ['{"url":"postgres://bursar:hunter2@db/bursar"}', 'a password in a URL'],
  ] as const)
    assert.ok(findSecrets(text).includes(name), text);
});

test('masked secrets, messages and ordinary lines are none', () => {
  for (const text of [
    '{"level":30,"time":1,"reqId":"06287f22-8948-104","method":"GET","path":"/jobs/***/","status":401,"ms":0.2}',
    '{"msg":"Send the header \\"Authorization: Bearer <ACCESS_TOKEN>\\"."}',
    '{"url":"postgres://bursar:********@db:5432/bursar","at":"http://127.0.0.1:8080/"}',
    '{"jobId":"BURSAR-JOB-BASH-0123456789ABCDEF0123456789ABCDEF","data":"/tmp/bursar-data-Ab3dEf"}',
  ])
    assert.deepEqual(findSecrets(text), [], text);
});

test('a secret in a log fails the process, with the line and the test file', async () => {
  const module = fileURLToPath(new URL('../../support/log-secrets.ts', import.meta.url));
  const run = (line: string) =>
    runFile(process.execPath, [
      ...['--input-type=module', '-e'],
      `import { checkLog } from ${JSON.stringify(module)}; checkLog(${JSON.stringify(line)}, 'test/some.test.ts');`,
    ]);
  await run('{"msg":"request served"}\n');
  await assert.rejects(
    run(`{"msg":"fine"}\n{"msg":"bursar_${letters}"}\n`),
    (error: { code: number; stderr: string }) => {
      assert.equal(error.code, 1);
      assert.match(error.stderr, /^test\/some\.test\.ts: the log contains a token or code of Bursar: \{"msg":"bursar_/);
      return true;
    },
  );
});

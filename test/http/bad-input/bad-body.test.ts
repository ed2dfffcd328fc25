import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { forgedZips, hostileZips } from '../../files/zip/hostile-zips.ts';
import { type ApiResponse, createCaller, type Job } from '../../support/api.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  listFilesUnder,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { formatRequestHead, type HeaderLine, openRawConnection } from '../../support/raw-http.ts';
import type { TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { formatForm, formType } from './multipart.ts';
import { chunk, createBodySender, lastChunk, maxBytes, path, startSmallServer } from './send-body.ts';
import { createLargeZip, createValidZip } from './valid-zip.ts';

// Rejected and accepted contents and sizes of a body.

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

const { headers, submit } = createBodySender(() => server);

describe('a body that is not a zip', () => {
  // The table is in test/files/zip/not-a-zip.test.ts.
  const cases: [string, () => string | Uint8Array][] = [
    ['text', () => 'hello'],
    ['half a zip', () => zip.subarray(0, zip.length / 2)],
    ['a zip with one more byte', () => Buffer.concat([zip, Buffer.from('!')])],
  ];
  for (const [name, body] of cases) {
    test(`${name} is rejected`, async () => {
      assertProblem(await submit(body()), { status: 400, code: 'invalid_zip' });
    });
  }

  test('the Content-Type is ignored', async () => {
    for (const type of [
      'application/zip',
      'application/json',
      'text/plain',
      'multipart/mixed; boundary=x',
      ';;;',
      '',
    ]) {
      const response = await submit('hello', ['content-type', type]);
      assertProblem(response, { status: 400, code: 'invalid_zip', message: /not a zip/ });
    }
  });

  test('a body with a Content-Encoding is 415, even if it is a zip', async () => {
    for (const [body, encoding] of [
      [gzipSync(zip), 'gzip'],
      [zip, 'gzip'],
      [zip, 'identity, br'],
    ] as const) {
      const response = await submit(body, ['content-encoding', encoding]);
      assertProblem(response, { status: 415, code: 'unsupported_encoding', message: /Send the zip itself/ });
    }
  });
});

describe('a hostile zip', () => {
  // One zip for each rule. test/files/zip/unzip.test.ts inspects all of them.
  const oneForEachRule = new Map(hostileZips.map((hostile) => [String(hostile.message), hostile])).values();
  for (const { name, bytes, message } of oneForEachRule) {
    test(`${name} is rejected`, async () => {
      assertProblem(await submit(bytes), { status: 400, code: 'invalid_zip', message });
    });
  }

  for (const { name, bytes, message } of forgedZips) {
    test(`${name} is rejected`, async () => {
      assertProblem(await submit(bytes), { status: 400, code: 'invalid_zip', message });
    });
  }

  test('a damaged zip in a file is rejected, even if many arrive at the same time', async () => {
    const damaged = await createLargeZip();
    damaged.writeUInt8(damaged.readUInt8(damaged.length / 2) ^ 1, damaged.length / 2);
    for (const response of await Promise.all(Array.from({ length: 10 }, () => submit(damaged)))) {
      assertProblem(response, { status: 400, code: 'invalid_zip', message: /damaged/ });
    }
  });
});

test('a forged zip that is too large to be verified on arrival ends its job; nothing is charged and no file stays', async () => {
  const other = await startSmallServer({ tuning: { maxVerifiedBytes: 0 } });
  try {
    const me = createCaller(other.url, other.userToken);
    const quotas = (await me.get('/quotas/')).text;
    for (const { bytes } of forgedZips.filter(({ name }) => !name.includes('empty file'))) {
      const { status, body } = await me.submit(path, { command: 'true' }, bytes);
      assert.equal(status, 201);
      const job = await me.waitUntilFinished(body);
      assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    }
    const listFiles = () => ['spool', 'workspaces'].flatMap((folder) => listFilesUnder(other, folder));
    await until('the files are removed', () => (listFiles().length === 0 ? true : undefined));
    assert.equal((await me.get('/quotas/')).text, quotas);
  } finally {
    await other.dispose();
  }
});

const tooLarge = { status: 413, code: 'too_large', message: /limit of 200 kB\. Send a smaller zip/ };

describe('the size limit of a body', () => {
  const large = Buffer.alloc(3_000_000, 1);

  test('rejects one byte too many', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes + 1)), tooLarge);
  });

  test('does not reject a body of exactly the limit as too large', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes)), { status: 400, code: 'invalid_zip' });
  });

  test('applies to the Content-Length', async () => {
    const problem = assertProblem(await submit(large), tooLarge);
    assert.equal(problem.maxBytes, maxBytes);
  });

  test('applies to a chunked body', async () => {
    const body = Buffer.concat([...Array<Buffer>(300).fill(chunk(Buffer.alloc(10_000))), Buffer.from(lastChunk)]);
    assertProblem(await submit(body, ['transfer-encoding', 'chunked']), tooLarge);
  });

  test('applies to a multipart form', async () => {
    const response = await submit(formatForm(['file', 'job.zip', large]), formType);
    assertProblem(response, tooLarge);
  });

  test('leaves the connection usable or closed after a rejection', async () => {
    const connection = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(large.length)];
    connection.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), large);
    connection.write(formatRequestHead({ path: '/livez' }));
    const [rejected, next] = await connection.readResponses(2);
    assert.equal(rejected?.status, 413);
    if (next !== undefined) assert.equal(next.text, '{"status":"ok"}');
  });
});

describe('a body without an end', { concurrency: true }, () => {
  // These tests wait until the server reads no more of the body.
  let impatient: TestServer;
  before(async () => {
    impatient = await startSmallServer({ requestTimeoutSeconds: 10 });
  });
  after(() => impatient.dispose());
  const sender = createBodySender(() => impatient);

  const cases: [string, HeaderLine, (string | Buffer)[]][] = [
    ['of terabytes is rejected before its first byte', ['content-length', '1000000000000000'], []],
    ['of terabytes is rejected while it is sent', ['content-length', '1000000000000000'], [Buffer.alloc(2 * maxBytes)]],
    ['in one chunk is rejected', ['transfer-encoding', 'chunked'], ['fffffffff\r\n', Buffer.alloc(2 * maxBytes)]],
  ];
  for (const [name, header, body] of cases) {
    test(name, async () => {
      const connection = await openRawConnection(impatient.url);
      connection.write(formatRequestHead({ method: 'POST', path, headers: sender.headers(header) }), ...body);
      const [response] = await connection.readResponses(1);
      assert.ok(response !== undefined);
      assertProblem(response, tooLarge);
    });
  }
});

describe('the rejection of a large body', () => {
  const large = Buffer.alloc(20_000_000);
  const length: HeaderLine = ['content-length', String(large.length)];
  const cases: [string, HeaderLine[], number][] = [
    ['because of its token', [['authorization', 'Bearer wrong']], 401],
    ['because of its headers', [['content-disposition', 'inline']], 400],
    ['because of its size', [], 413],
  ];
  for (const [name, wrong, status] of cases) {
    for (const [kind, connectionHeader] of [
      ['a keep-alive connection', 'keep-alive'],
      ['a connection with Connection: close', 'close'],
    ] as const) {
      test(`${name} reaches a client that reads while it sends, on ${kind}`, async () => {
        const connection = await openRawConnection(server.url);
        connection.write(headWith(wrong, connectionHeader), large);
        const [response] = await connection.readResponses(1);
        assert.equal(response?.status, status);
      });

      test(`${name} reaches a client that sends everything before it reads, on ${kind}`, {
        timeout: 60_000,
      }, async () => {
        const connection = await openRawConnection(server.url);
        await connection.write(headWith(wrong, connectionHeader), large);
        const [response] = await connection.readResponses(1);
        assert.equal(response?.status, status);
      });
    }
  }

  function headWith(wrong: HeaderLine[], connectionHeader: string) {
    const right = headers().filter(([header]) => wrong.every(([given]) => given !== header));
    return formatRequestHead({
      method: 'POST',
      path,
      headers: [...right, ...wrong, length, ['connection', connectionHeader]],
    });
  }
});

describe('accepts as a body', () => {
  const cases: [string, () => Promise<ApiResponse>][] = [
    ['nothing', () => submit('')],
    ['an empty body with a Content-Length', () => submit('', ['content-length', '0'])],
    ['an empty body in chunks', () => submit(lastChunk, ['transfer-encoding', 'chunked'])],
    ['a zip', () => submit(zip)],
    [
      'a zip in chunks',
      () => submit(Buffer.concat([chunk(zip), Buffer.from(lastChunk)]), ['transfer-encoding', 'chunked']),
    ],
    ['a zip with another Content-Type', () => submit(zip, ['content-type', 'application/json'])],
    [
      'a zip with the default Content-Type of curl',
      () => submit(zip, ['content-type', 'application/x-www-form-urlencoded']),
    ],
    ['a zip in a multipart form', () => submit(formatForm(['file', 'job.zip', zip]), formType)],
  ];
  for (const [name, send] of cases) {
    test(name, async () => {
      const response = await send();
      assert.equal(response.status, 201, response.text);
      const job = await createCaller(server.url, server.userToken).waitUntilFinished(response.body as Job);
      assert.equal(job.stage, 'SUCCESSFUL');
      await state.update();
      const files = listFilesUnder(server, `workspaces/${job.job_id}/files`);
      assert.deepEqual(files, /zip/.test(name) ? ['data.bin', 'run.sh'] : []);
    });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});

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
import { goodZip } from './good-zip.ts';
import { form, formType } from './multipart.ts';
import { bodySender, chunk, lastChunk, maxBytes, path, startSmallServer } from './send-body.ts';

// What a body may not hold, and how large it may be; and bodies that are accepted.

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

const { headers, submit } = bodySender(() => server);

describe('a body that is no zip', () => {
  // The table is in test/files/zip/not-a-zip.test.ts.
  const cases: [string, () => string | Uint8Array][] = [
    ['text', () => 'hello'],
    ['half a zip', () => zip.subarray(0, zip.length / 2)],
    ['a zip with one more byte', () => Buffer.concat([zip, Buffer.from('!')])],
  ];
  for (const [name, body] of cases) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(body()), { status: 400, code: 'invalid_zip' });
    });
  }

  test('the type that a body claims to have makes no difference', async () => {
    for (const type of [
      'application/zip',
      'application/json',
      'text/plain',
      'multipart/mixed; boundary=x',
      ';;;',
      '',
    ]) {
      const answer = await submit('hello', ['content-type', type]);
      assertProblem(answer, { status: 400, code: 'invalid_zip', message: /not a zip/ });
    }
  });

  test('a body that claims to be compressed is not uncompressed', async () => {
    const answer = await submit(gzipSync(zip), ['content-encoding', 'gzip']);
    assertProblem(answer, { status: 400, code: 'invalid_zip', message: /not a zip/ });
  });
});

describe('a hostile zip', () => {
  // One zip for each rule. test/files/zip/unzip.test.ts inspects all of them.
  const oneForEachRule = new Map(hostileZips.map((hostile) => [String(hostile.message), hostile])).values();
  for (const { name, bytes, message } of oneForEachRule) {
    test(`${name} is refused`, async () => {
      assertProblem(await submit(bytes), { status: 400, code: 'invalid_zip', message });
    });
  }

  for (const { name, bytes } of forgedZips) {
    test(`${name} fails once it is unpacked, costs nothing, and its files are gone`, async () => {
      const me = createCaller(server.url, server.userToken);
      const [quotas, files] = [(await me.get('/quotas/')).text, listFilesUnder(server, 'workspaces')];
      const { status, body } = await me.submit(path, { command: 'true' }, bytes);
      assert.equal(status, 201);
      const job = await me.waitUntilFinished(body);
      assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
      await until('its zip is gone', () => (listFilesUnder(server, 'spool').length === 0 ? true : undefined));
      assert.deepEqual(listFilesUnder(server, 'workspaces'), files);
      assert.equal((await me.get('/quotas/')).text, quotas);
      await traces.update();
    });
  }
});

describe('a body that is too large', () => {
  const large = Buffer.alloc(3_000_000, 1);
  const refusal = { status: 413, code: 'too_large', message: /200000 bytes.*smaller zip/ };

  test('by one byte', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes + 1)), refusal);
  });

  test('is just not', async () => {
    assertProblem(await submit(Buffer.alloc(maxBytes)), { status: 400, code: 'invalid_zip' });
  });

  test('by its Content-Length', async () => {
    const problem = assertProblem(await submit(large), refusal);
    assert.equal(problem.maxBytes, maxBytes);
  });

  test('by a Content-Length of terabytes, before they are sent', async () => {
    const wire = await openRawConnection(server.url);
    wire.write(formatRequestHead({ method: 'POST', path, headers: headers(['content-length', '1000000000000000']) }));
    wire.write(large);
    const [answer] = await wire.readResponses(1);
    assert.ok(answer !== undefined);
    assertProblem(answer, refusal);
  });

  test('in chunks', async () => {
    const body = Buffer.concat([...Array<Buffer>(300).fill(chunk(Buffer.alloc(10_000))), Buffer.from(lastChunk)]);
    assertProblem(await submit(body, ['transfer-encoding', 'chunked']), refusal);
  });

  test('in one chunk that never ends', async () => {
    const wire = await openRawConnection(server.url);
    wire.write(formatRequestHead({ method: 'POST', path, headers: headers(['transfer-encoding', 'chunked']) }));
    wire.write('fffffffff\r\n', large);
    const [answer] = await wire.readResponses(1);
    assert.ok(answer !== undefined);
    assertProblem(answer, refusal);
  });

  test('in a multipart form', async () => {
    const answer = await submit(form(['file', 'job.zip', large]), formType);
    assertProblem(answer, refusal);
  });

  test('and leaves the connection in order, or closed', async () => {
    const wire = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(large.length)];
    wire.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), large);
    wire.write(formatRequestHead({ path: '/livez' }));
    const [refused, next] = await wire.readResponses(2);
    assert.equal(refused?.status, 413);
    if (next !== undefined) assert.equal(next.text, '{"status":"ok"}');
  });
});

describe('the refusal of a large body', () => {
  const large = Buffer.alloc(20_000_000);
  const length: HeaderLine = ['content-length', String(large.length)];
  const cases: [string, HeaderLine[], number][] = [
    ['for its token', [['authorization', 'Bearer wrong']], 401],
    ['for its headers', [['content-disposition', 'inline']], 400],
    ['for its size', [], 413],
  ];
  for (const [name, wrong, status] of cases) {
    for (const [kind, connection] of [
      ['a connection', 'keep-alive'],
      ['a connection that is to be closed', 'close'],
    ] as const) {
      test(`${name} reaches a caller who listens while sending, on ${kind}`, async () => {
        const wire = await openRawConnection(server.url);
        wire.write(headWith(wrong, connection), large);
        const [answer] = await wire.readResponses(1);
        assert.equal(answer?.status, status);
      });

      test(`${name} reaches a caller who sends everything before listening, on ${kind}`, {
        timeout: 60_000,
      }, async () => {
        const wire = await openRawConnection(server.url);
        await wire.write(headWith(wrong, connection), large);
        const [answer] = await wire.readResponses(1);
        assert.equal(answer?.status, status);
      });
    }
  }

  function headWith(wrong: HeaderLine[], connection: string) {
    const right = headers().filter(([header]) => wrong.every(([given]) => given !== header));
    return formatRequestHead({
      method: 'POST',
      path,
      headers: [...right, ...wrong, length, ['connection', connection]],
    });
  }
});

describe('a body that is accepted', () => {
  const cases: [string, () => Promise<ApiResponse>][] = [
    ['nothing at all', () => submit('')],
    ['an empty body with its length', () => submit('', ['content-length', '0'])],
    ['an empty body in chunks', () => submit(lastChunk, ['transfer-encoding', 'chunked'])],
    ['a zip', () => submit(zip)],
    [
      'a zip in chunks',
      () => submit(Buffer.concat([chunk(zip), Buffer.from(lastChunk)]), ['transfer-encoding', 'chunked']),
    ],
    ['a zip of another type', () => submit(zip, ['content-type', 'application/json'])],
    ['a zip as curl sends it', () => submit(zip, ['content-type', 'application/x-www-form-urlencoded'])],
    ['a zip in a multipart form', () => submit(form(['file', 'job.zip', zip]), formType)],
  ];
  for (const [name, send] of cases) {
    test(name, async () => {
      const answer = await send();
      assert.equal(answer.status, 201, answer.text);
      const job = await createCaller(server.url, server.userToken).waitUntilFinished(answer.body as Job);
      assert.equal(job.stage, 'SUCCESSFUL');
      await traces.update();
      const files = listFilesUnder(server, `workspaces/${job.job_id}/files`);
      assert.deepEqual(files, /zip/.test(name) ? ['data.bin', 'run.sh'] : []);
    });
  }
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

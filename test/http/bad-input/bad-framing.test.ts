import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { formatRequestHead, type HeaderLine, openRawConnection } from '../../support/raw-http.ts';
import type { TestServer } from '../../support/server.ts';
import { chunk, createBodySender, earlyEnds, getCode, lastChunk, path, startSmallServer } from './send-body.ts';
import { createValidZip } from './valid-zip.ts';

// Bodies whose Content-Length or chunks are wrong.

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

const { headers, submit, sendBeginning, sendHalf } = createBodySender(() => server);

describe('a body that', () => {
  for (const [name, ending, createBody] of earlyEnds) {
    const assertRejected = async (send: typeof sendHalf, framing: HeaderLine, body: Buffer) => {
      const connection = await openRawConnection(server.url);
      await send(connection, formatRequestHead({ method: 'POST', path, headers: headers(framing) }), body);
      connection[ending]();
      for (const response of await connection.readUntilClosed())
        assertProblem(response, { status: 400, code: getCode(response) });
    };
    const chunked: HeaderLine = ['transfer-encoding', 'chunked'];

    test(`${name} half-way is rejected`, async () => {
      const body = await createBody();
      await assertRejected(sendHalf, ['content-length', String(body.length)], body);
    });

    test(`${name} half-way through a chunk is rejected`, async () => {
      await assertRejected(sendHalf, chunked, chunk(await createBody()));
    });

    test(`${name} before its last chunk is rejected`, async () => {
      await assertRejected(sendBeginning, chunked, chunk(await createBody()));
    });
  }

  test('is longer than its Content-Length is rejected, and the rest is not a valid request', async () => {
    const connection = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(zip.length - 30)];
    connection.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), zip);
    const [response, ...more] = await connection.readUntilClosed();
    assert.ok(response !== undefined);
    assertProblem(response, { status: 400, code: 'invalid_zip' });
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
  });

  test('is followed by other bytes is accepted once, and the other bytes are rejected', async () => {
    const connection = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(zip.length)];
    connection.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), zip, 'and more\r\n\r\n');
    const [response, ...more] = await connection.readUntilClosed();
    assert.ok(response !== undefined);
    assert.equal(response.status, 201, response.text);
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
    const { body } = await createCaller(server.url, server.userToken).get<Job[]>('/jobs/');
    assert.equal(body.at(-1)?.id, (response.body as Job).id);
    await state.update();
  });

  for (const length of ['-1', '1e3', '0x10', 'many', '5 5', '99999999999999999999999', '+5']) {
    test(`has the Content-Length ${length} is rejected`, async () => {
      const response = await submit(zip, ['content-length', length]);
      assertProblem(response, { status: 400, code: 'bad_request' });
    });
  }

  test('has two Content-Lengths is rejected', async () => {
    const response = await submit(zip, ['content-length', String(zip.length)], ['content-length', '5']);
    assertProblem(response, { status: 400, code: 'bad_request' });
  });

  test('has a Content-Length and chunks is rejected', async () => {
    const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
    const response = await submit(body, ['content-length', '5'], ['transfer-encoding', 'chunked']);
    assertProblem(response, { status: 400, code: 'bad_request' });
  });
});

describe('invalid chunks', () => {
  const cases: [string, () => string | Uint8Array][] = [
    ['a size that is not a number', () => 'hello\r\nhello\r\n0\r\n\r\n'],
    ['a negative size', () => '-5\r\nhello\r\n0\r\n\r\n'],
    ['no size', () => '\r\nhello\r\n0\r\n\r\n'],
    ['a size that is too small', () => '3\r\nhello\r\n0\r\n\r\n'],
    ['a size that is too large for an integer', () => `${'f'.repeat(20)}\r\nhello\r\n0\r\n\r\n`],
    ['no line end after a chunk', () => '5\r\nhello0\r\n\r\n'],
    ['an invalid size after a valid chunk', () => Buffer.concat([chunk(zip), Buffer.from('zz\r\n')])],
    ['a size with a prefix', () => '0x5\r\nhello\r\n0\r\n\r\n'],
    ['line feeds without carriage returns', () => '5\nhello\n0\n\n'],
  ];
  for (const [name, body] of cases) {
    test(`${name} is rejected`, async () => {
      const response = await submit(body(), ['transfer-encoding', 'chunked']);
      assertProblem(response, { status: 400, code: getCode(response) });
      assert.match(getCode(response), /^(bad_request|invalid_body)$/);
    });
  }

  for (const coding of ['gzip', 'identity', 'chunked, gzip', 'chunked, chunked', 'xchunked']) {
    test(`the transfer coding ${coding} is rejected`, async () => {
      const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
      const response = await submit(body, ['transfer-encoding', coding]);
      assert.ok([400, 501].includes(response.status), response.text);
      assertProblem(response, { status: response.status, code: getCode(response) });
    });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});

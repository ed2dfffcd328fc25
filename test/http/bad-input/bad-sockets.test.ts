import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import type { ApiResponse } from '../../support/api.ts';
import { assertCleanLog, readLogLines } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import {
  bearerHeader,
  formatRequestHead,
  type HeaderLine,
  openRawConnection,
  sendRawRequest,
} from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  server = await startServer();
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(async () => {
  const response = await sendRawRequest(server.url, { path: '/quotas/', headers: [bearerHeader(server.userToken)] });
  assert.equal(response.status, 200, 'the server still responds');
  await state.assertUnchanged();
});

const auth = () => `Authorization: Bearer ${server.userToken}\r\n`;

/** Sends the bytes, and reads all responses until the server closes the connection. */
async function sendBytes(bytes: string | Uint8Array): Promise<ApiResponse[]> {
  const connection = await openRawConnection(server.url);
  connection.write(bytes);
  connection.end();
  return await connection.readUntilClosed();
}

async function assertRejected(bytes: string | Uint8Array, status = 400, code = 'bad_request') {
  const responses = await sendBytes(bytes);
  assert.equal(responses.length, 1);
  for (const response of responses) {
    assertProblem(response, { status, code });
    assert.equal(response.headers.get('connection'), 'close');
  }
}

const clientHello = Buffer.concat([Buffer.from('16030100c8010000c40303', 'hex'), Buffer.alloc(200, 1)]);

describe('bytes that are not valid HTTP', () => {
  const invalid: [string, () => string | Uint8Array][] = [
    ['a word', () => 'hello\r\n\r\n'],
    ['a line without an end', () => 'hello'],
    ['NULs', () => Buffer.alloc(1000)],
    ['bytes from 0x80 on', () => Buffer.alloc(1000, 0xff)],
    ['random bytes', () => Buffer.concat([Buffer.from([1]), randomBytes(10_000)])],
    ['a TLS greeting', () => clientHello],
    ['an SSH greeting', () => 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['an SMTP greeting', () => 'EHLO localhost\r\nMAIL FROM:<root@localhost>\r\n'],
    ['a Redis command', () => '*1\r\n$4\r\nPING\r\n'],
    ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a response instead of a request', () => 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['only a method', () => 'GET\r\n\r\n'],
    ['an unknown version', () => 'GET /jobs/ HTTP/9.9\r\nHost: x\r\n\r\n'],
    ['a malformed version', () => 'GET /jobs/ HTTP/one\r\nHost: x\r\n\r\n'],
    ['another protocol', () => 'GET /jobs/ FTP/1.1\r\nHost: x\r\n\r\n'],
    ['a path with a space', () => `GET /jobs/hpc one/ HTTP/1.1\r\nHost: x\r\n${auth()}\r\n`],
    ['a path with a NUL', () => `GET /jobs/\0/ HTTP/1.1\r\nHost: x\r\n${auth()}\r\n`],
    ['a path that is relative', () => `GET jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}\r\n`],
    ['no Host', () => `GET /jobs/ HTTP/1.1\r\n${auth()}\r\n`],
    ['a header line without a colon', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello\r\n\r\n`],
    ['a header without a name', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}: hello\r\n\r\n`],
    ['a header name with a space', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello world: x\r\n\r\n`],
    ['a space before the colon', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello : x\r\n\r\n`],
    ['a header name with a NUL', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hel\0lo: x\r\n\r\n`],
    ['a header value with a NUL', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: \0\r\n\r\n`],
    ['a header value with a bell', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: \x07\r\n\r\n`],
    [
      'a header value with a bare carriage return',
      () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}a: b\rc: d\r\n\r\n`,
    ],
    ['a folded header', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}\r hello\r\n\r\n`],
    ['headers that are cut off', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: `],
    ['headers without their empty line', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}`],
    [
      'a Payload with a line feed',
      () => `POST /jobs/hpc_one/ HTTP/1.1\r\nHost: x\r\n${auth()}Payload: {\n"a": 1}\r\n\r\n`,
    ],
    ['a Payload with a NUL', () => `POST /jobs/hpc_one/ HTTP/1.1\r\nHost: x\r\n${auth()}Payload: {"a": "\0"}\r\n\r\n`],
  ];
  for (const [name, bytes] of invalid) {
    test(`rejects ${name}`, () => assertRejected(bytes()));
  }

  test('a header of 20 kB is too large', async () => {
    const bytes = `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: ${'x'.repeat(20_000)}\r\n\r\n`;
    await assertRejected(bytes, 431, 'headers_too_large');
  });

  test('a header that does not end is too large', async () => {
    const connection = await openRawConnection(server.url);
    connection.write(`GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: ${'x'.repeat(1_000_000)}`);
    const [response] = await connection.readResponses(1);
    assert.ok(response !== undefined);
    assertProblem(response, { status: 431, code: 'headers_too_large' });
  });

  test('five thousand headers are too many', async () => {
    const lines = Array.from({ length: 5000 }, (_, i) => `h${i}: x\r\n`).join('');
    await assertRejected(`GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}${lines}\r\n`, 431, 'headers_too_large');
  });
});

describe('valid but unusual HTTP', () => {
  test('HTTP/1.0 is served, and the connection is closed', async () => {
    const [response, ...more] = await sendBytes(`GET /jobs/ HTTP/1.0\r\n${auth()}\r\n`);
    assert.equal(response?.status, 200, response?.text);
    assert.equal(more.length, 0);
  });

  test('HTTP/1.0 needs a token like HTTP/1.1', async () => {
    const [response] = await sendBytes('GET /jobs/ HTTP/1.0\r\n\r\n');
    assert.ok(response !== undefined);
    assertProblem(response, { status: 401, code: 'token_missing' });
  });

  test('HTTP/0.9 is rejected because its token is missing', async () => {
    const [response] = await sendBytes('GET /jobs/\r\n\r\n');
    assert.ok(response !== undefined);
    assert.ok([400, 401].includes(response.status), response.text);
  });

  test('two hundred headers are served', async () => {
    const headers = Array.from({ length: 200 }, (_, i): HeaderLine => [`x-header-${i}`, String(i)]);
    const response = await sendRawRequest(server.url, {
      path: '/jobs/',
      headers: [...headers, bearerHeader(server.userToken)],
    });
    assert.equal(response.status, 200, response.text);
  });

  test('a header that is sent two hundred times is served', async () => {
    const headers = Array.from({ length: 200 }, (): HeaderLine => ['x-header', 'x']);
    const response = await sendRawRequest(server.url, {
      path: '/jobs/',
      headers: [...headers, bearerHeader(server.userToken)],
    });
    assert.equal(response.status, 200, response.text);
  });

  test('a request that is sent byte by byte is served', async () => {
    const connection = await openRawConnection(server.url);
    for (const byte of formatRequestHead({ path: '/jobs/', headers: [bearerHeader(server.userToken)] })) {
      await connection.write(Buffer.from([byte]));
    }
    const [response] = await connection.readResponses(1);
    assert.equal(response?.status, 200, response?.text);
  });

  test('empty lines before a request are ignored', async () => {
    const [response] = await sendBytes(`\r\n\r\nGET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}\r\n`);
    assert.equal(response?.status, 200, response?.text);
  });

  test('an absolute address is served as its path', async () => {
    const response = await sendRawRequest(server.url, {
      path: 'http://elsewhere/jobs/',
      headers: [bearerHeader(server.userToken)],
    });
    assert.equal(response.status, 200, response.text);
  });

  test('ten pipelined requests are answered in order', async () => {
    const connection = await openRawConnection(server.url);
    const rejected = formatRequestHead({ path: '/jobs/hpc_six/', headers: [bearerHeader(server.userToken)] });
    const served = formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    for (let i = 0; i < 5; i++) connection.write(rejected, served);
    const statuses = (await connection.readResponses(10)).map((response) => response.status);
    assert.deepEqual(statuses, Array<number[]>(5).fill([404, 200]).flat());
  });

  test('invalid bytes after a request do not affect its response', async () => {
    const connection = await openRawConnection(server.url);
    connection.write(
      formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] }),
      'hello\r\n\r\n',
    );
    const [response, ...more] = await connection.readUntilClosed();
    assert.equal(response?.status, 200, response?.text);
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
  });

  test('an unknown Expect header is rejected', async () => {
    const headers: HeaderLine[] = [bearerHeader(server.userToken), ['expect', 'miracles']];
    const response = await sendRawRequest(server.url, { path: '/quotas/', headers });
    assertProblem(response, { status: 417, code: 'expectation_failed', message: /miracles.*Leave out/ });
  });

  test('an upgrade to another protocol is rejected or ignored', async () => {
    const headers: HeaderLine[] = [
      bearerHeader(server.userToken),
      ['connection', 'upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ['sec-websocket-version', '13'],
    ];
    const response = await sendRawRequest(server.url, { path: '/quotas/', headers });
    assert.ok([200, 400, 426].includes(response.status), response.text);
  });

  test('CONNECT is rejected', async () => {
    for (const response of await sendBytes('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n')) {
      assert.ok(response.status >= 400 && response.status < 500, response.text);
      assert.equal(response.headers.get('content-type'), 'application/problem+json');
    }
  });
});

describe('incomplete connections', () => {
  test('that send nothing', async () => {
    for (let i = 0; i < 50; i++) {
      const connection = await openRawConnection(server.url);
      if (i % 2 === 0) connection.destroy();
      else connection.end();
    }
  });

  test('that are lost during a request', async () => {
    const head = formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    for (let length = 1; length < head.length; length += 7) {
      const connection = await openRawConnection(server.url);
      await connection.write(head.subarray(0, length));
      connection.destroy();
    }
  });

  test('that do not wait for the response', async () => {
    for (let i = 0; i < 50; i++) {
      const connection = await openRawConnection(server.url);
      await connection.write(formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] }));
      connection.destroy();
    }
  });

  test('of which two hundred are open at the same time', async () => {
    const connections = await Promise.all(Array.from({ length: 200 }, () => openRawConnection(server.url)));
    await Promise.all(connections.map((connection) => connection.write('GET /quotas/ HTTP/1.1\r\nHost: x\r\n')));
    const response = await sendRawRequest(server.url, { path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    assert.equal(response.status, 200, response.text);
    for (const connection of connections) connection.destroy();
  });
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('a rejected connection is logged with the request id of its response', async () => {
  const [response] = await sendBytes('hello\r\n\r\n');
  assert.ok(response !== undefined);
  const { request_id: reqId } = assertProblem(response, { status: 400, code: 'bad_request' });
  assert.ok((await readLogLines(server)).some((line) => line.reqId === reqId));
});

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});

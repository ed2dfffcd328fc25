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
let traces: StateSnapshot;
before(async () => {
  server = await startServer();
  traces = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(async () => {
  const answer = await sendRawRequest(server.url, { path: '/quotas/', headers: [bearerHeader(server.userToken)] });
  assert.equal(answer.status, 200, 'the server still serves');
  await traces.assertUnchanged();
});

const auth = () => `Authorization: Bearer ${server.userToken}\r\n`;

/** What is answered to these bytes until the server closes the connection. */
async function talk(bytes: string | Uint8Array): Promise<ApiResponse[]> {
  const wire = await openRawConnection(server.url);
  wire.write(bytes);
  wire.end();
  return await wire.readUntilClosed();
}

async function assertRefused(bytes: string | Uint8Array, status = 400, code = 'bad_request') {
  const answers = await talk(bytes);
  assert.equal(answers.length, 1);
  for (const answer of answers) {
    assertProblem(answer, { status, code });
    assert.equal(answer.headers.get('connection'), 'close');
  }
}

const clientHello = Buffer.concat([Buffer.from('16030100c8010000c40303', 'hex'), Buffer.alloc(200, 1)]);

describe('what is not HTTP', () => {
  const rubbish: [string, () => string | Uint8Array][] = [
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
    ['an answer in place of a request', () => 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['a method alone', () => 'GET\r\n\r\n'],
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
    ['headers that break off', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: `],
    ['headers without their empty line', () => `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}`],
    [
      'a Payload with a line feed',
      () => `POST /jobs/hpc_one/ HTTP/1.1\r\nHost: x\r\n${auth()}Payload: {\n"a": 1}\r\n\r\n`,
    ],
    ['a Payload with a NUL', () => `POST /jobs/hpc_one/ HTTP/1.1\r\nHost: x\r\n${auth()}Payload: {"a": "\0"}\r\n\r\n`],
  ];
  for (const [name, bytes] of rubbish) {
    test(`${name} is refused`, () => assertRefused(bytes()));
  }

  test('a header of 20 kB is too large', async () => {
    const bytes = `GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: ${'x'.repeat(20_000)}\r\n\r\n`;
    await assertRefused(bytes, 431, 'headers_too_large');
  });

  test('a header without an end is too large', async () => {
    const wire = await openRawConnection(server.url);
    wire.write(`GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}hello: ${'x'.repeat(1_000_000)}`);
    const [answer] = await wire.readResponses(1);
    assert.ok(answer !== undefined);
    assertProblem(answer, { status: 431, code: 'headers_too_large' });
  });

  test('five thousand headers are too many', async () => {
    const lines = Array.from({ length: 5000 }, (_, i) => `h${i}: x\r\n`).join('');
    await assertRefused(`GET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}${lines}\r\n`, 431, 'headers_too_large');
  });
});

describe('what is HTTP, though unusual', () => {
  test('HTTP/1.0 is served, and the connection closed', async () => {
    const [answer, ...more] = await talk(`GET /jobs/ HTTP/1.0\r\n${auth()}\r\n`);
    assert.equal(answer?.status, 200, answer?.text);
    assert.equal(more.length, 0);
  });

  test('HTTP/1.0 is refused like any other', async () => {
    const [answer] = await talk('GET /jobs/ HTTP/1.0\r\n\r\n');
    assert.ok(answer !== undefined);
    assertProblem(answer, { status: 401, code: 'token_missing' });
  });

  test('HTTP/0.9 gets no further than its token', async () => {
    const [answer] = await talk('GET /jobs/\r\n\r\n');
    assert.ok(answer !== undefined);
    assert.ok([400, 401].includes(answer.status), answer.text);
  });

  test('two hundred headers are served', async () => {
    const headers = Array.from({ length: 200 }, (_, i): HeaderLine => [`x-header-${i}`, String(i)]);
    const answer = await sendRawRequest(server.url, {
      path: '/jobs/',
      headers: [...headers, bearerHeader(server.userToken)],
    });
    assert.equal(answer.status, 200, answer.text);
  });

  test('a header that is sent two hundred times is served', async () => {
    const headers = Array.from({ length: 200 }, (): HeaderLine => ['x-header', 'x']);
    const answer = await sendRawRequest(server.url, {
      path: '/jobs/',
      headers: [...headers, bearerHeader(server.userToken)],
    });
    assert.equal(answer.status, 200, answer.text);
  });

  test('a request that comes byte by byte is served', async () => {
    const wire = await openRawConnection(server.url);
    for (const byte of formatRequestHead({ path: '/jobs/', headers: [bearerHeader(server.userToken)] })) {
      await wire.write(Buffer.from([byte]));
    }
    const [answer] = await wire.readResponses(1);
    assert.equal(answer?.status, 200, answer?.text);
  });

  test('empty lines before a request are passed over', async () => {
    const [answer] = await talk(`\r\n\r\nGET /jobs/ HTTP/1.1\r\nHost: x\r\n${auth()}\r\n`);
    assert.equal(answer?.status, 200, answer?.text);
  });

  test('an absolute address is served as its path', async () => {
    const answer = await sendRawRequest(server.url, {
      path: 'http://elsewhere/jobs/',
      headers: [bearerHeader(server.userToken)],
    });
    assert.equal(answer.status, 200, answer.text);
  });

  test('ten requests at once are answered in turn', async () => {
    const wire = await openRawConnection(server.url);
    const refused = formatRequestHead({ path: '/jobs/hpc_six/', headers: [bearerHeader(server.userToken)] });
    const served = formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    for (let i = 0; i < 5; i++) wire.write(refused, served);
    const statuses = (await wire.readResponses(10)).map((answer) => answer.status);
    assert.deepEqual(statuses, Array<number[]>(5).fill([404, 200]).flat());
  });

  test('rubbish after a request does not spoil its answer', async () => {
    const wire = await openRawConnection(server.url);
    wire.write(formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] }), 'hello\r\n\r\n');
    const [answer, ...more] = await wire.readUntilClosed();
    assert.equal(answer?.status, 200, answer?.text);
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
  });

  test('an expectation that nobody can meet is refused', async () => {
    const headers: HeaderLine[] = [bearerHeader(server.userToken), ['expect', 'miracles']];
    const answer = await sendRawRequest(server.url, { path: '/quotas/', headers });
    assert.ok([200, 400, 417].includes(answer.status), answer.text);
    if (answer.status !== 200) assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  });

  test('a request to become something else is not followed', async () => {
    const headers: HeaderLine[] = [
      bearerHeader(server.userToken),
      ['connection', 'upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ['sec-websocket-version', '13'],
    ];
    const answer = await sendRawRequest(server.url, { path: '/quotas/', headers });
    assert.ok([200, 400, 426].includes(answer.status), answer.text);
  });

  test('a tunnel is not opened', async () => {
    for (const answer of await talk('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n')) {
      assert.ok(answer.status >= 400 && answer.status < 500, answer.text);
      assert.equal(answer.headers.get('content-type'), 'application/problem+json');
    }
  });
});

describe('connections that come to nothing', () => {
  test('that say nothing', async () => {
    for (let i = 0; i < 50; i++) {
      const wire = await openRawConnection(server.url);
      if (i % 2 === 0) wire.destroy();
      else wire.end();
    }
  });

  test('that break off within a request', async () => {
    const head = formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    for (let length = 1; length < head.length; length += 7) {
      const wire = await openRawConnection(server.url);
      await wire.write(head.subarray(0, length));
      wire.destroy();
    }
  });

  test('that do not wait for the answer', async () => {
    for (let i = 0; i < 50; i++) {
      const wire = await openRawConnection(server.url);
      await wire.write(formatRequestHead({ path: '/quotas/', headers: [bearerHeader(server.userToken)] }));
      wire.destroy();
    }
  });

  test('two hundred that are open at once', async () => {
    const wires = await Promise.all(Array.from({ length: 200 }, () => openRawConnection(server.url)));
    await Promise.all(wires.map((wire) => wire.write('GET /quotas/ HTTP/1.1\r\nHost: x\r\n')));
    const answer = await sendRawRequest(server.url, { path: '/quotas/', headers: [bearerHeader(server.userToken)] });
    assert.equal(answer.status, 200, answer.text);
    for (const wire of wires) wire.destroy();
  });
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('what was refused is in the log, by the identifier that the refusal names', async () => {
  const [answer] = await talk('hello\r\n\r\n');
  assert.ok(answer !== undefined);
  const { request_id: reqId } = assertProblem(answer, { status: 400, code: 'bad_request' });
  assert.ok((await readLogLines(server)).some((line) => line.reqId === reqId));
});

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

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
import { goodZip } from './good-zip.ts';
import { bodySender, chunk, codeIn, endings, lastChunk, path, startSmallServer } from './send-body.ts';

// A body whose length, or whose chunks, are not what they claim to be.

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

const { headers, submit, sendBeginning, sendHalf } = bodySender(() => server);

describe('a body that is not as long as announced', () => {
  for (const [name, ending, bodyOf] of endings) {
    test(`${name} half-way`, async () => {
      const wire = await openRawConnection(server.url);
      const body = await bodyOf();
      const length: HeaderLine = ['content-length', String(body.length)];
      await sendHalf(wire, formatRequestHead({ method: 'POST', path, headers: headers(length) }), body);
      wire[ending]();
      for (const answer of await wire.readUntilClosed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });

    test(`${name} half-way through a chunk`, async () => {
      const wire = await openRawConnection(server.url);
      const chunked: HeaderLine = ['transfer-encoding', 'chunked'];
      await sendHalf(
        wire,
        formatRequestHead({ method: 'POST', path, headers: headers(chunked) }),
        chunk(await bodyOf()),
      );
      wire[ending]();
      for (const answer of await wire.readUntilClosed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });

    test(`${name} before its last chunk`, async () => {
      const wire = await openRawConnection(server.url);
      const chunked: HeaderLine = ['transfer-encoding', 'chunked'];
      await sendBeginning(
        wire,
        formatRequestHead({ method: 'POST', path, headers: headers(chunked) }),
        chunk(await bodyOf()),
      );
      wire[ending]();
      for (const answer of await wire.readUntilClosed()) assertProblem(answer, { status: 400, code: codeIn(answer) });
    });
  }

  test('is longer: what is cut off is no zip, and the rest is no request', async () => {
    const wire = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(zip.length - 30)];
    wire.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), zip);
    const [answer, ...more] = await wire.readUntilClosed();
    assert.ok(answer !== undefined);
    assertProblem(answer, { status: 400, code: 'invalid_zip' });
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
  });

  test('is longer by rubbish: the job is taken once, and the rubbish is no request', async () => {
    const wire = await openRawConnection(server.url);
    const length: HeaderLine = ['content-length', String(zip.length)];
    wire.write(formatRequestHead({ method: 'POST', path, headers: headers(length) }), zip, 'and more\r\n\r\n');
    const [answer, ...more] = await wire.readUntilClosed();
    assert.ok(answer !== undefined);
    assert.equal(answer.status, 201, answer.text);
    for (const next of more) assertProblem(next, { status: 400, code: 'bad_request' });
    const { body } = await createCaller(server.url, server.userToken).get<Job[]>('/jobs/');
    assert.equal(body.at(-1)?.id, (answer.body as Job).id);
    await traces.update();
  });

  for (const length of ['-1', '1e3', '0x10', 'many', '5 5', '99999999999999999999999', '+5']) {
    test(`has the length ${length}`, async () => {
      const answer = await submit(zip, ['content-length', length]);
      assertProblem(answer, { status: 400, code: 'bad_request' });
    });
  }

  test('has two lengths', async () => {
    const answer = await submit(zip, ['content-length', String(zip.length)], ['content-length', '5']);
    assertProblem(answer, { status: 400, code: 'bad_request' });
  });

  test('has a length and chunks', async () => {
    const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
    const answer = await submit(body, ['content-length', '5'], ['transfer-encoding', 'chunked']);
    assertProblem(answer, { status: 400, code: 'bad_request' });
  });
});

describe('broken chunks', () => {
  const cases: [string, () => string | Uint8Array][] = [
    ['a size that is no number', () => 'hello\r\nhello\r\n0\r\n\r\n'],
    ['a negative size', () => '-5\r\nhello\r\n0\r\n\r\n'],
    ['no size', () => '\r\nhello\r\n0\r\n\r\n'],
    ['a size that is too small', () => '3\r\nhello\r\n0\r\n\r\n'],
    ['a size beyond all numbers', () => `${'f'.repeat(20)}\r\nhello\r\n0\r\n\r\n`],
    ['no line end after a chunk', () => '5\r\nhello0\r\n\r\n'],
    ['a broken size after a good chunk', () => Buffer.concat([chunk(zip), Buffer.from('zz\r\n')])],
    ['a size with a prefix', () => '0x5\r\nhello\r\n0\r\n\r\n'],
    ['line feeds alone', () => '5\nhello\n0\n\n'],
  ];
  for (const [name, body] of cases) {
    test(`${name} is refused`, async () => {
      const answer = await submit(body(), ['transfer-encoding', 'chunked']);
      assertProblem(answer, { status: 400, code: codeIn(answer) });
      assert.match(codeIn(answer), /^(bad_request|invalid_body)$/);
    });
  }

  for (const coding of ['gzip', 'identity', 'chunked, gzip', 'chunked, chunked', 'xchunked']) {
    test(`the transfer coding ${coding} is refused`, async () => {
      const body = Buffer.concat([chunk(zip), Buffer.from(lastChunk)]);
      const answer = await submit(body, ['transfer-encoding', coding]);
      assert.ok([400, 501].includes(answer.status), answer.text);
      assertProblem(answer, { status: answer.status, code: codeIn(answer) });
    });
  }
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});

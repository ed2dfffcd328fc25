import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FastifyInstance, fastify } from 'fastify';
import { connectionErrors } from '../../../src/http/server/connection-errors.ts';
import { createRepeatedReads } from '../../../src/http/server/repeated-reads.ts';
import { until } from '../../support/until.ts';

const question = 'GET /thing HTTP/1.1\r\nHost: bursar\r\n\r\n';

const quiet = fastify({ logger: false }).log;

/** A server of one thing, which counts how often it was worked on. */
describe('a question that was asked before', () => {
  const caller = { userId: '1', tokenHash: 'a', goodUntil: Number.POSITIVE_INFINITY, admin: false };
  const thing = { text: 'first', version: 1, goodUntil: Number.POSITIVE_INFINITY };
  const slow = Promise.withResolvers<void>();
  let worked = 0;
  let answered = 0;
  let isAllowed = true;
  let app: FastifyInstance;
  let socket: Socket;
  let said = '';

  before(async () => {
    const repeated = createRepeatedReads({
      booksVersion: () => thing.version,
      limits: { spend: () => (isAllowed ? 'some' : null) },
      now: Date.now,
      newRequestId: () => 'name',
      onAnswered: () => {
        answered++;
      },
    });
    app = fastify({ clientErrorHandler: connectionErrors(quiet).answer });
    app.decorateReply('goodUntil', 0);
    app.addHook('onRequest', async (request) => {
      repeated.begin(request);
      repeated.introduce(request, caller);
    });
    app.addHook('onSend', async (request, reply, payload) => repeated.keep(request, reply, payload));
    app.get('/thing', async (_request, reply) => {
      worked++;
      reply.goodUntil = thing.goodUntil;
      return Buffer.from(thing.text);
    });
    app.get('/broken', async (_request, reply) => {
      worked++;
      reply.goodUntil = thing.goodUntil;
      return reply.code(500).send(Buffer.from('broken'));
    });
    app.get('/slow', async () => {
      await slow.promise;
      return 'slow';
    });
    repeated.overtake(app.server);
    await app.listen({ port: 0, host: '127.0.0.1' });
    await talk();
  });
  after(async () => {
    socket.destroy();
    await app.close();
  });

  /** Begins a connection. */
  async function talk(): Promise<void> {
    const { port } = app.server.address() as AddressInfo;
    socket = connect(port, '127.0.0.1')
      .setEncoding('latin1')
      .on('data', (text) => {
        said += text;
      })
      .on('error', () => undefined);
    await once(socket, 'connect');
  }

  /** The body of the answer, and whether it was worked on. */
  async function ask(asked = question): Promise<[string, boolean]> {
    const before = worked;
    said = '';
    socket.write(asked);
    const length = await until('the head', () => /content-length: (\d+).*\r\n\r\n/is.exec(said)?.[1]);
    const body = await until('the body', () => {
      const text = said.slice(said.indexOf('\r\n\r\n') + 4);
      return text.length === Number(length) ? text : undefined;
    });
    return [body, worked > before];
  }

  test('is not worked on again, and its answer is the same, short or long', async () => {
    for (const text of ['short', 'grün €', 'long '.repeat(10_000)]) {
      Object.assign(thing, { text, version: thing.version + 1 });
      const bytes = Buffer.from(text).toString('latin1');
      assert.deepEqual(await ask(), [bytes, true]);
      assert.deepEqual(await ask(), [bytes, false]);
      assert.deepEqual(await ask(), [bytes, false]);
    }
  });

  test('is worked on when somebody has written, when its time is over, and when its limit is reached', async () => {
    Object.assign(thing, { text: 'third', version: thing.version + 1 });
    assert.deepEqual(await ask(), ['third', true]);
    isAllowed = false;
    assert.deepEqual(await ask(), ['third', true]);
    isAllowed = true;
    assert.deepEqual(await ask(), ['third', false]);
    Object.assign(thing, { version: thing.version + 1, goodUntil: Date.now() - 1 });
    for (let n = 0; n < 3; n++) assert.deepEqual(await ask(), ['third', true]);
    const soon = Date.now() + 300;
    thing.goodUntil = soon;
    await ask();
    await sleep(soon - Date.now() + 1);
    thing.goodUntil = Number.POSITIVE_INFINITY;
    assert.deepEqual(await ask(), ['third', true]);
    assert.deepEqual(await ask(), ['third', false], 'it is kept anew, though nobody has written');
  });

  test('with a name of its own, or with an error for an answer, is worked on each time', async () => {
    Object.assign(thing, { text: 'named', version: thing.version + 1, goodUntil: Number.POSITIVE_INFINITY });
    for (const header of ['X-Request-Id: mine', 'traceparent: 00-1-2-01']) {
      const named = question.replace('\r\n\r\n', `\r\n${header}\r\n\r\n`);
      for (let n = 0; n < 3; n++) assert.deepEqual(await ask(named), ['named', true]);
    }
    for (let n = 0; n < 3; n++) assert.deepEqual(await ask(question.replace('thing', 'broken')), ['broken', true]);
  });

  test('is not answered on a connection that is being closed', async () => {
    assert.deepEqual(await ask(), ['named', true]);
    assert.deepEqual(await ask(), ['named', false]);
    const served = answered;
    const closed = once(socket, 'close');
    said = '';
    socket.write('GET /thing HTTP/1.1\r\nno header\r\n\r\n');
    await until('the refusal', () => said.includes(' 400 ') || undefined);
    socket.write(question);
    await closed;
    assert.deepEqual([said.match(/HTTP\/1.1 \d+/g), answered], [['HTTP/1.1 400'], served]);
    await talk();
  });

  test('does not overtake the one before it', async () => {
    Object.assign(thing, { text: 'fourth', version: thing.version + 1, goodUntil: Number.POSITIVE_INFINITY });
    await ask();
    assert.deepEqual(await ask(), ['fourth', false]);
    said = '';
    socket.write(question.replace('thing', 'slow'));
    await sleep(50);
    socket.write(question);
    await sleep(50);
    assert.equal(said, '');
    slow.resolve();
    await until('both answers', () => said.endsWith('fourth') || undefined);
    assert.match(said, /slow.*fourth$/s);
    assert.deepEqual(await ask(), ['fourth', false]);
  });
});

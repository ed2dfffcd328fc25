import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fastify from 'fastify';
import { closingSignal } from '../../../src/http/request/open-response.ts';
import { formatEvent, type ServerSentEvent, sendEvents } from '../../../src/http/response/sse.ts';
import { parseSse } from '../../support/parse-sse.ts';
import { until } from '../../support/until.ts';

type Source = (over: AbortSignal) => AsyncIterable<ServerSentEvent>;

async function serve(t: TestContext, source: Source, heartbeatMs = 15_000) {
  const app = fastify({ keepAliveTimeout: 50 });
  const closing = closingSignal(app);
  app.get('/', (_request, reply) => sendEvents(reply, closing, source, heartbeatMs));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  t.after(() => app.close());
  return { app, url };
}

describe('server-sent events', () => {
  test('are formatted as in the standard', () => {
    assert.equal(formatEvent({ data: 'a' }), 'data: a\n\n');
    assert.equal(formatEvent({ id: '1', event: 'e', data: 'a\nb' }), 'id: 1\nevent: e\ndata: a\ndata: b\n\n');
    assert.deepEqual(parseSse(formatEvent({ data: 'a\r\nb\rc' })), [{ id: '', event: 'message', data: 'a\nb\nc' }]);
  });

  test('are sent immediately, and the response ends with their source', async (t) => {
    const { url } = await serve(t, async function* () {
      for (const data of ['one', 'two']) yield { data };
    });
    const response = await fetch(url);
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    assert.deepEqual(
      parseSse(await response.text()).map(({ data }) => data),
      ['one', 'two'],
    );
    assert.equal((await fetch(url, { method: 'HEAD' })).status, 200);
  });

  test('include heartbeats while there are no events', async (t) => {
    const { promise: enough, resolve } = Promise.withResolvers<void>();
    const { url } = await serve(
      t,
      async function* () {
        await enough;
        yield { data: 'late' };
      },
      10,
    );
    let text = '';
    for await (const chunk of (await fetch(url)).body ?? []) {
      text += Buffer.from(chunk).toString();
      if (text.split('\n').filter((line) => line === ':').length > 3) resolve();
    }
    assert.equal(parseSse(text).length, 1);
  });

  test('end when the client disconnects', async (t) => {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const { url } = await serve(t, async function* (signal) {
      yield { data: 'one' };
      await once(signal, 'abort');
      resolve();
    });
    const leaving = new AbortController();
    await fetch(url, { signal: leaving.signal });
    leaving.abort();
    await over;
  });

  test('end without an error when the server closes', async (t) => {
    const { app, url } = await serve(t, async function* (signal) {
      yield { id: '7', data: 'before' };
      await once(signal, 'abort');
    });
    let text = '';
    let closed: Promise<unknown> | undefined;
    for await (const chunk of (await fetch(url)).body ?? []) {
      text += Buffer.from(chunk).toString();
      closed ??= app.close();
    }
    await closed;
    assert.deepEqual(
      parseSse(text).map(({ id }) => id),
      ['7'],
    );
  });

  test('stop being produced while the client does not read', async (t) => {
    let made = 0;
    const { url } = await serve(t, async function* () {
      for (; made < 100_000; made += 1) yield { data: 'x'.repeat(1000) };
    });
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    let before = -1;
    await until('the source stops', async () => {
      if (made > 0 && made === before) return true;
      before = made;
      await sleep(200);
      return undefined;
    });
    assert.ok(made < 100_000, `${made} events were made`);
    socket.destroy();
  });

  test('abort the response when their source fails', async (t) => {
    const { url } = await serve(t, async function* () {
      yield { data: 'one' };
      throw new Error('on purpose');
    });
    const response = await fetch(url);
    await assert.rejects(response.text());
  });
});

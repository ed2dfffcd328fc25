import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type FastifyInstance, fastify } from 'fastify';
import type {} from '../../../src/http/request/authentication.ts'; // It declares `caller`.
import { createResponseCache } from '../../../src/http/server/response-cache.ts';

const forever = Number.POSITIVE_INFINITY;

/** A server with one cached resource, which counts how often its handler runs. */
describe('the response cache', () => {
  const state = { text: 'first', version: 1, now: 1000, cacheUntil: forever, tokenUntil: forever, isAllowed: true };
  let handled = 0;
  let logged = 0;
  let commitWhileHandling = false;
  let isDatabaseBroken = false;
  let app: FastifyInstance;
  let url: string;

  before(async () => {
    const cache = createResponseCache({
      commitVersion: () => {
        if (isDatabaseBroken) throw new Error('disk I/O error');
        return state.version;
      },
      maxBytes: 1_000_000,
      limits: { callerCounter: () => () => (state.isAllowed ? 'some' : undefined) },
      now: () => state.now,
      requestId: () => 'from-cache',
      address: () => '127.0.0.1',
      recordSpan: () => undefined,
      onServed: () => {
        logged++;
      },
    });
    app = fastify();
    app.decorateRequest('caller', null);
    app.decorateRequest('commitVersion', undefined);
    app.decorateReply('cacheUntil', 0);
    app.addHook('onRequest', async (request) => {
      cache.onRequest(request);
      request.caller = {
        ...{
          userId: '1',
          role: 'user',
          address: null,
          sessionId: null,
          requestId: null,
          scopes: new Set(),
          limit: { hpc: null, project: null },
        },
        ...{ tokenId: 1, tokenHash: 'a', validUntil: state.tokenUntil },
      };
    });
    app.addHook('onSend', async (request, reply, payload) => cache.onSend(request, reply, payload) ?? payload);
    app.get('/thing', async (request, reply) => {
      handled++;
      if (commitWhileHandling) state.version++;
      reply.cacheUntil = state.cacheUntil;
      const text = `${state.text} for ${request.headers.authorization}`;
      return reply.header('etag', '"x"').header('x-request-id', 'from-handler').send(Buffer.from(text));
    });
    app.get('/broken', async (_request, reply) => {
      handled++;
      reply.cacheUntil = forever;
      return reply.code(500).send(Buffer.from('broken'));
    });
    app.get('/uncached', async () => {
      handled++;
      return Buffer.from('uncached');
    });
    cache.install(app.server);
    await app.listen({ port: 0, host: '127.0.0.1' });
    url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  });
  after(() => app.close());
  beforeEach(() => {
    Object.assign(state, { text: 'first', now: 1000, cacheUntil: forever, tokenUntil: forever, isAllowed: true });
    commitWhileHandling = false;
    isDatabaseBroken = false;
    state.version++;
    handled = 0;
    logged = 0;
  });

  const get = async (path = '/thing', headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, { headers: { authorization: 'Bearer one', ...headers } });
    return { status: response.status, text: await response.text(), headers: response.headers };
  };

  /** A response is kept from the second request on. */
  const getTwice: typeof get = async (path, headers) => {
    await get(path, headers);
    return await get(path, headers);
  };

  test('sends the same response, from the third request on, without running the handler', async () => {
    const first = await getTwice();
    assert.equal(handled, 2);
    assert.equal(logged, 0);
    const third = await get();
    assert.equal(handled, 2);
    assert.equal(logged, 1);
    assert.deepEqual([third.status, third.text], [200, first.text]);
    assert.equal(third.headers.get('etag'), '"x"');
    assert.equal(third.headers.get('content-length'), first.headers.get('content-length'));
    assert.equal(third.headers.get('x-request-id'), 'from-cache');
    assert.equal(third.headers.get('ratelimit'), 'some');
  });

  test('keeps no response to a request that is not repeated before the next commit', async () => {
    for (let n = 0; n < 3; n++) {
      await get();
      state.version++;
    }
    await get();
    await get();
    assert.equal(handled, 5);
    await get();
    assert.equal(handled, 5);
  });

  test('forgets requests that came once before their keys take much memory', async () => {
    await get();
    const etag = 'x'.repeat(12_000);
    for (let n = 0; n < 200; n++) await get('/thing', { 'if-none-match': `"${n}${etag}"` });
    handled = 0;
    await getTwice();
    assert.equal(handled, 2);
  });

  test('reads your writes: no response is older than the last commit', async () => {
    await getTwice();
    for (const text of ['second', 'third']) {
      state.text = text;
      state.version++;
      assert.equal((await getTwice()).text, `${text} for Bearer one`);
      assert.equal((await get()).text, `${text} for Bearer one`);
    }
    assert.equal(handled, 6);
  });

  test('does not keep a response that was read before a commit', async () => {
    await get();
    commitWhileHandling = true;
    await get();
    commitWhileHandling = false;
    await get();
    assert.equal(handled, 3);
  });

  test('keeps one response for each token, URL and If-None-Match', async () => {
    await getTwice();
    assert.equal((await getTwice('/thing', { authorization: 'Bearer two' })).text, 'first for Bearer two');
    await getTwice('/thing?limit=1');
    await getTwice('/thing', { 'if-none-match': '"x"' });
    assert.equal(handled, 8);
    assert.equal((await get('/thing', { authorization: 'Bearer two' })).text, 'first for Bearer two');
    assert.equal((await get()).text, 'first for Bearer one');
    assert.equal(handled, 8);
  });

  test('keeps nothing beyond the time that the route, or the token, allows', async () => {
    for (const limit of ['cacheUntil', 'tokenUntil'] as const) {
      state.version++;
      state[limit] = 2000;
      handled = 0;
      state.now = 1999;
      await getTwice();
      await get();
      assert.equal(handled, 2, limit);
      state.now = 2000;
      await get();
      assert.equal(handled, 3, limit);
      state[limit] = forever;
    }
  });

  test('keeps no errors, nothing that a route did not mark, and nothing for requests without a token', async () => {
    for (const path of ['/broken', '/uncached']) for (let n = 0; n < 3; n++) await get(path);
    for (let n = 0; n < 3; n++) await (await fetch(`${url}/thing`)).text();
    assert.equal(handled, 9);
  });

  test('leaves a request to the server when its caller has reached a limit', async () => {
    await getTwice();
    state.isAllowed = false;
    await get();
    assert.equal(handled, 3);
  });

  test('leaves a request to the server, which reports the error, when the database cannot be read', async () => {
    await getTwice();
    isDatabaseBroken = true;
    const { status, text } = await get();
    assert.equal(status, 500);
    assert.match(text, /disk I\/O error/);
  });

  test('leaves other methods and requests with a body to the server', async () => {
    await getTwice();
    const headers = { authorization: 'Bearer one' };
    assert.equal(
      (await fetch(`${url}/thing`, { method: 'HEAD', headers })).headers.get('x-request-id'),
      'from-handler',
    );
    assert.equal((await fetch(`${url}/thing`, { method: 'POST', headers, body: 'x' })).status, 404);
  });
});

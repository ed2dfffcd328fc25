import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fastify from 'fastify';
import { createBrowser, toLocalPath } from '../../../src/http/request/browser.ts';

/** Returns the answers of a server with this address to a request with these headers. */
async function inspect(publicUrl: string | undefined, headers: Record<string, string>, hasTls = false) {
  const browser = createBrowser(publicUrl, hasTls);
  const app = fastify();
  app.get('/', (request, reply) => {
    browser.setCookie(reply, 'session', 'secret', 60);
    const isOwn = (() => {
      try {
        browser.requireOwnOrigin(request);
        return true;
      } catch {
        return false;
      }
    })();
    return { origin: browser.originOf(request), session: browser.cookieOf(request, 'session') ?? null, isOwn };
  });
  const response = await app.inject({ url: '/', headers });
  await app.close();
  return { ...response.json(), cookie: String(response.headers['set-cookie']) };
}

describe('the address of the server', () => {
  const secure = '__Host-bursar_session=secret; Max-Age=60; Path=/; HttpOnly; Secure; SameSite=Lax';
  const plain = 'bursar_session=secret; Max-Age=60; Path=/; HttpOnly; SameSite=Lax';

  test('is the configured one, whatever the Host header says', async () => {
    for (const host of ['bursar.example.org', '127.0.0.1:8080', 'evil.example']) {
      const { origin, cookie, isOwn } = await inspect('https://bursar.example.org/', {
        host,
        origin: `https://${host}`,
      });
      assert.deepEqual([origin, cookie], ['https://bursar.example.org', secure]);
      assert.equal(isOwn, host === 'bursar.example.org');
    }
    const local = await inspect('http://localhost:9000', { host: 'localhost:9000', origin: 'http://localhost:9000' });
    assert.deepEqual([local.cookie, local.isOwn], [plain, true]);
  });

  test('otherwise is that of the Host header, with TLS unless it names this host', async () => {
    for (const host of ['127.0.0.1:8080', 'localhost:8080', '[::1]:8080', '127.1.2.3']) {
      const { origin, cookie } = await inspect(undefined, { host });
      assert.deepEqual([origin, cookie], [`http://${host}`, plain]);
    }
    for (const host of ['bursar.example.org', '10.0.0.7:8080', '127.0.0.1.evil.example', '0.0.0.0', '[::]:80']) {
      const { origin, cookie } = await inspect(undefined, { host });
      assert.deepEqual([origin, cookie], [`https://${host}`, secure]);
    }
  });

  test('is always the start of a URL: a Host header that names no host is refused', async () => {
    for (const host of ['a b', '[::1', '127.0.0.1:99999', '<script>'])
      assert.equal((await inspect(undefined, { host })).code, 'bad_request', host);
    const { origin } = await inspect(undefined, { host: 'user@BURSAR.example.org:443/path' });
    assert.equal(origin, 'https://bursar.example.org');
  });

  test('decides which cookie counts: another host cannot set one with the prefix', async () => {
    const cookie = '__Host-bursar_session=own; bursar_session=planted; broken; =; a=b=c';
    const { session } = await inspect(undefined, { host: 'bursar.example.org', cookie });
    assert.equal(session, 'own');
  });
});

test('a local path is a path of this server', () => {
  for (const path of ['/', '/jobs/?a=b#c', '/a//b', '/%2f%2fevil.example'])
    assert.equal(toLocalPath(path, '/docs/'), path);
  const others = [
    ...[
      '',
      'jobs/',
      '//evil.example',
      '/\\evil.example',
      '/\t/evil.example',
      '/.//evil.example',
      '/a/..//evil.example',
    ],
    ...['https://evil.example', 'javascript:alert(1)', '\\\\evil.example', ' //evil.example', '/\n/evil.example'],
  ];
  for (const path of others) assert.equal(toLocalPath(path, '/docs/'), '/docs/', JSON.stringify(path));
  assert.equal(toLocalPath(undefined, '/docs/'), '/docs/');
});

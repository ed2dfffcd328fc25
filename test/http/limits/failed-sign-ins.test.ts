import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../../src/domain/errors.ts';
import { createRateLimits, networkOf } from '../../../src/http/limits/rate-limits.ts';
import { createCaller } from '../../support/api.ts';
import { withDatabase } from '../../support/database.ts';
import { assertProblem } from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

/** One failure is forgotten after 20 s: longer than a test takes. */
const failedSignIns = 3;

test('clients are counted by IPv4 address, or by the /64 of an IPv6 address', () => {
  assert.equal(networkOf('192.0.2.7'), '192.0.2.7');
  assert.equal(networkOf('::ffff:192.0.2.7'), '192.0.2.7');
  assert.equal(networkOf('::ffff:c000:207'), '192.0.2.7');
  assert.equal(networkOf('2001:db8:1:2:3:4:5:6'), networkOf('2001:db8:1:2::'));
  assert.notEqual(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'));
  assert.equal(networkOf('fe80::1%eth0'), networkOf('fe80::2'));
  for (const text of ['', 'unknown', '192.0.2.7:4711', 'x:y']) assert.equal(networkOf(text), text);
});

describe('sign-ins with a short code', () => {
  const headers = new Map<string, string>();
  const reply = {
    header(name: string, value: string) {
      headers.set(name, value);
      return reply;
    },
  } as unknown as FastifyReply;
  const from = (ip: string) => ({ ip }) as FastifyRequest;
  const fail = async () => {
    throw new BursarError('sign_in_failed', 'This code is not valid.');
  };
  function createLimits() {
    let now = 1_000_000;
    const settings = {
      windowMs: 1000,
      userRequests: 9,
      addressRequests: 9,
      failedSignIns,
    };
    return { ...createRateLimits(settings, () => now), wait: (ms: number) => (now += ms) };
  }
  const hasCode = (code: string) => (error: unknown) => error instanceof BursarError && error.code === code;

  test('are refused before the code is checked once too many have failed, and allowed again one by one', async () => {
    const limits = createLimits();
    const me = from('192.0.2.7');
    for (let count = 0; count < failedSignIns; count++)
      await assert.rejects(limits.signIn(me, reply, fail), hasCode('sign_in_failed'));
    let isChecked = false;
    const check = async () => {
      isChecked = true;
    };
    await assert.rejects(limits.signIn(me, reply, check), (error: BursarError) => {
      assert.deepEqual([error.code, error.retryAfterSeconds], ['too_many_requests', 20]);
      return true;
    });
    assert.equal(isChecked, false);
    assert.match(headers.get('ratelimit') ?? '', /^"failed_sign_in";r=0;t=60$/);
    await limits.signIn(from('192.0.2.8'), reply, check);
    limits.wait(20_000);
    await assert.rejects(limits.signIn(me, reply, fail), hasCode('sign_in_failed'));
    await assert.rejects(limits.signIn(me, reply, fail), hasCode('too_many_requests'));
  });

  test('cannot exceed the limit by being sent at the same time', async () => {
    const limits = createLimits();
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, host) => limits.signIn(from(`2001:db8::${host}`), reply, fail)),
    );
    const codes = results.map((result) => result.status === 'rejected' && result.reason.code);
    assert.equal(codes.filter((code) => code === 'sign_in_failed').length, failedSignIns);
  });

  test('do not count if they succeed, or fail for another reason', async () => {
    const limits = createLimits();
    const me = from('192.0.2.7');
    for (let count = 0; count < 3 * failedSignIns; count++) {
      assert.equal(await limits.signIn(me, reply, async () => 'session'), 'session');
      await assert.rejects(
        limits.signIn(me, reply, () => Promise.reject(new Error('no database'))),
        /no database/,
      );
    }
  });

  test('work from an address with many wrong tokens', async () => {
    const limits = createLimits();
    const me = from('192.0.2.7');
    for (let count = 0; count < failedSignIns; count++) limits.invalidToken(me, reply);
    assert.throws(() => limits.invalidToken(me, reply), hasCode('too_many_requests'));
    assert.equal(await limits.signIn(me, reply, async () => 'session'), 'session');
  });
});

describe('requests of unknown clients', () => {
  const start = (trustProxy: string[]) =>
    startServer({ config: { ...shippedConfig(), server: { port: 0, trustProxy }, limits: { failedSignIns } } });
  let direct: TestServer;
  let proxied: TestServer;
  before(async () => {
    [direct, proxied] = await Promise.all([start(['10.0.0.0/8']), start(['127.0.0.1', '10.0.0.0/8'])]);
  });
  after(() => Promise.all([direct.dispose(), proxied.dispose()]));

  const guess = (server: TestServer, forwardedFor: string, token = 'bursar_wrong') =>
    createCaller(server.url, token).send('GET', '/jobs/', { 'x-forwarded-for': forwardedFor });
  const statusesOf = async (server: TestServer, addresses: string[]) => {
    const statuses: number[] = [];
    for (const address of addresses) statuses.push((await guess(server, address)).status);
    return statuses;
  };
  const slowedDown = [401, 401, 401, 429];

  test('with a wrong token are slowed down by the address of the peer unless it is a listed proxy, and valid tokens work meanwhile', async () => {
    const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'];
    assert.deepEqual(await statusesOf(direct, addresses), slowedDown);
    const refused = await guess(direct, '192.0.2.5');
    assertProblem(refused, { status: 429, code: 'too_many_requests', message: /wrong token or code/ });
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.match(refused.headers.get('ratelimit') ?? '', /^"failed_sign_in";r=0;t=\d+$/);
    assert.equal((await guess(direct, '192.0.2.5', direct.userToken)).status, 200);
    assert.equal((await createCaller(direct.url, null).get('/jobs/')).status, 401, 'no token is no failed sign-in');
  });

  test('with a wrong token are counted by the client that a listed proxy reports, and not by what the client says of itself', async () => {
    assert.deepEqual(await statusesOf(proxied, Array(4).fill('192.0.2.1')), slowedDown);
    assert.equal((await guess(proxied, '192.0.2.2')).status, 401, 'another client');
    // Two proxies in a row: 10.0.0.9 is the inner one. Each client pretends to come from elsewhere.
    const spoofed = [1, 2, 3, 4].map((number) => `203.0.113.${number}, 192.0.2.3, 10.0.0.9`);
    assert.deepEqual(await statusesOf(proxied, spoofed), slowedDown);
    // Trusted networks that the client names do not make it trusted.
    const asProxy = [1, 2, 3, 4].map((number) => `203.0.113.${number}, 10.0.0.7, 192.0.2.4`);
    assert.deepEqual(await statusesOf(proxied, asProxy), slowedDown);
    const ipv6 = [1, 2, 3, 4].map((host) => `2001:db8:1:2::${host}`);
    assert.deepEqual(await statusesOf(proxied, ipv6), slowedDown);
    assert.equal((await guess(proxied, '2001:db8:1:3::1')).status, 401);
    assert.deepEqual(
      await statusesOf(proxied, ['192.0.2.9', '::ffff:192.0.2.9', '192.0.2.9', '192.0.2.9']),
      slowedDown,
    );
  });

  test('the last use of a token has the address of the client behind a listed proxy', async () => {
    const token = await proxied.token('301331');
    await guess(proxied, '192.0.2.77', token);
    // The request does not wait until its use of the token is stored.
    const lastUsedFrom = await until('the use of the token is stored', async () => {
      const own = await createCaller(proxied.url, token).get<{ last_used_from: string | null }[]>('/me/tokens/');
      return own.body[0]?.last_used_from ?? undefined;
    });
    assert.equal(lastUsedFrom, '192.0.2.77');
  });

  test('one address can store a limited number of sign-ins that are not completed', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const start = () => createCaller(direct.url, null).send('POST', '/oauth/device/', headers, 'client_id=flood');
    const responses = await Promise.all(Array.from({ length: 200 }, start));
    const refused = responses.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0);
    const stored = await withDatabase(direct.data, (db) => db.selectFrom('deviceRequests').select('id').execute());
    assert.equal(stored.length, responses.length - refused.length);
  });
});

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isAllowedAddress, parseEndpointUrl } from '../../src/webhooks/endpoint.ts';
import type { Caller } from '../support/api.ts';
import { loadOpenApiContract, type Problem } from '../support/contract.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { freePorts } from '../support/ports.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import {
  registerWebhook,
  sendJson,
  sendTestEvent,
  type Webhook,
  webhookConfig,
  webhookTuning,
} from '../support/webhooks.ts';

// Webhooks must not reach networks that only this host can reach (SSRF).

/** Hosts that are not public addresses, in every spelling that a URL accepts. */
const privateHosts = [
  '127.0.0.1',
  '127.1',
  '127.0.1',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7f.0.0.1',
  '0x7f.1',
  '017700000001',
  '0177.0.0.1',
  '0177.1',
  '127.0.0.1.',
  '１２７.０.０.１',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '0',
  '0.0.0.0',
  '10.0.0.1',
  '167772161',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '0xc0a80101',
  '169.254.169.254',
  '2852039166',
  '0251.0376.0251.0376',
  '100.64.0.1',
  '192.0.0.1',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.7',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.255',
  '[::]',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::ffff:10.0.0.1]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b:1::1]',
  '[2002:7f00:1::]',
  '[2001:0:7f00:1::]',
  '[2001:db8::1]',
  '[3fff::1]',
  '[100::1]',
  '[5f00::1]',
  '[fe80::1]',
  '[febf::1]',
  '[fec0::1]',
  '[fc00::1]',
  '[fd12:3456:789a::1]',
  '[ff02::1]',
  '[4000::1]',
];

const invalidUrls = [
  'http://93.184.216.34/',
  'ftp://93.184.216.34/',
  'file:///etc/passwd',
  'gopher://93.184.216.34/',
  'javascript:alert(1)',
  'https://',
  'https:///',
  'not a url',
  '',
  'https://user@93.184.216.34/',
  'https://user:secret@93.184.216.34/',
  'https://93.184.216.34/#part',
  'https://93.184.216.34:0/',
  'https://93.184.216.34:99999/',
  'https://256.256.256.256/',
  'https://[::1/',
  'https://[fe80::1%25eth0]/',
  `https://93.184.216.34/${'x'.repeat(2000)}`,
];

describe('endpoint address', () => {
  const strict = { allowHttp: false, allowNetworks: [], denyNetworks: [], allowPorts: [] };
  test('is allowed if it is public', () => {
    for (const host of ['93.184.216.34', '1.1.1.1', '172.32.0.1', '[2606:4700:4700::1111]', '[2a00:1450::1]']) {
      assert.equal(parseEndpointUrl(`https://${host}:8443/x?y=z`, strict).port, '8443', host);
    }
    assert.ok(isAllowedAddress('::ffff:1.1.1.1', strict), 'judged by the mapped IPv4 address');
  });

  test('is allowed if it is in a configured network, and refused next to it', () => {
    const rules = { ...strict, allowNetworks: ['10.1.0.0/16', 'fd00::/8'] };
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1'])
      assert.ok(isAllowedAddress(address, rules), address);
    for (const address of ['10.2.0.1', '127.0.0.1', 'fc00::1', '::1'])
      assert.ok(!isAllowedAddress(address, rules), address);
  });

  test('is refused if it is in a denied network, although it is public or in an allowed network', () => {
    const rules = {
      ...strict,
      allowNetworks: ['10.1.0.0/16'],
      denyNetworks: ['93.184.216.0/24', '10.1.9.0/24', '2a00::/16'],
    };
    for (const address of ['93.184.216.34', '::ffff:93.184.216.34', '10.1.9.1', '2a00:1450::1'])
      assert.ok(!isAllowedAddress(address, rules), address);
    for (const address of ['93.184.217.34', '10.1.8.1', '2606:4700:4700::1111'])
      assert.ok(isAllowedAddress(address, rules), address);
    assert.throws(() => parseEndpointUrl('https://93.184.216.34/', rules), { code: 'webhook_refused' });
  });

  test('is refused with a port that is not allowed', () => {
    const rules = { ...strict, allowHttp: true, allowPorts: [443, 8443] };
    for (const url of ['https://1.1.1.1/', 'https://1.1.1.1:443/', 'https://1.1.1.1:8443/', 'http://1.1.1.1:443/'])
      assert.ok(parseEndpointUrl(url, rules));
    for (const url of ['http://1.1.1.1/', 'https://1.1.1.1:22/', 'https://1.1.1.1:8080/'])
      assert.throws(() => parseEndpointUrl(url, rules), /Port \d+ is not allowed\. Use one of the ports 443, 8443\./);
  });
});

describe('webhook registration', () => {
  let server: TestServer;
  let me: Caller;
  before(async () => {
    server = await startServer({ config: shippedConfig() });
    me = (await loadOpenApiContract(server)).callerFor(server.userToken);
  });
  after(() => server.dispose());

  for (const host of privateHosts) {
    test(`refuses https://${host}/, which is not a public address`, async () => {
      const url = `https://${host}/hook`;
      const { status, body } = await sendJson<Problem>(me, 'POST', '/webhooks/', { url, events: ['*'] });
      assert.deepEqual([status, body.code], [400, 'webhook_refused']);
      assert.match(body.detail, /is not a public address/);
    });
  }

  for (const url of invalidUrls) {
    test(`refuses ${url.slice(0, 60) || 'an empty URL'}`, async () => {
      const { status, body } = await sendJson<Problem>(me, 'POST', '/webhooks/', { url, events: ['*'] });
      assert.deepEqual([status, body.code], [400, 'webhook_refused']);
    });
  }

  test('stores no refused webhook', async () => {
    assert.deepEqual((await me.get<Webhook[]>('/webhooks/')).body, []);
  });
});

describe('endpoint host name', () => {
  let server: TestServer;
  let me: Caller;
  let dns: DnsServer;
  let allowedEndpoint: TestEndpoint;
  let privateEndpoint: TestEndpoint;
  /** The addresses of a name, by the number of the query. */
  const zone = new Map<string, (queryNumber: number) => string[]>();

  before(async () => {
    const times = new Map<string, number>();
    dns = await startDnsServer((name, type) => {
      const count = (times.get(`${type} ${name}`) ?? 0) + 1;
      times.set(`${type} ${name}`, count);
      return zone.get(name)?.(count) ?? [];
    });
    const [port = 0] = await freePorts(1);
    allowedEndpoint = await startEndpoint({ host: '127.0.0.2', port });
    privateEndpoint = await startEndpoint({ host: '127.0.0.1', port });
    // No test here waits for an attempt to time out.
    const tuning = { ...webhookTuning, nameServers: [dns.address], webhookRetrySeconds: [0.1] };
    server = await startServer({ config: webhookConfig({ allowNetworks: ['127.0.0.2/32'] }), tuning });
    me = (await loadOpenApiContract(server)).callerFor(server.userToken);
  });
  after(async () => {
    await server.dispose();
    await Promise.all([dns.close(), allowedEndpoint.close(), privateEndpoint.close()]);
  });

  const refusedNames: [name: string, addresses: string[]][] = [
    ['loopback.test', ['127.0.0.1']],
    ['metadata.test', ['169.254.169.254']],
    ['intranet.test', ['10.20.30.40']],
    ['six.test', ['::1']],
    ['mapped.test', ['::ffff:7f00:1']],
    ['local.test', ['fd00::1']],
    ['mixed.test', ['1.1.1.1', '192.168.0.1']],
    ['both.test', ['1.1.1.1', '::1']],
    ['nowhere.test', []],
    ['localhost', ['127.0.0.1']],
  ];
  for (const [name, addresses] of refusedNames) {
    test(`is refused if it resolves to ${addresses.join(' and ') || 'nothing'} (${name})`, async () => {
      zone.set(name, () => addresses);
      const url = `http://${name}:${allowedEndpoint.port}/`;
      const { status, body } = await sendJson<Problem>(me, 'POST', '/webhooks/', { url, events: ['*'] });
      assert.deepEqual([status, body.code], [400, 'webhook_refused']);
      // The same for all of them: the answer does not show which names exist in an internal DNS.
      assert.match(body.detail, new RegExp(`The host ${name} does not exist, or not all of its addresses are public`));
      assert.ok(dns.queries.includes(`A ${name}`));
    });
  }

  test('is accepted if it resolves to an allowed address, and the request goes there', async () => {
    zone.set('good.test', () => ['127.0.0.2']);
    const webhook = await registerWebhook(me, `http://good.test:${allowedEndpoint.port}/`);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
    assert.equal(allowedEndpoint.requests.at(-1)?.headers.host, `good.test:${allowedEndpoint.port}`);
  });

  test('that resolves to a private address on every second query never reaches it (DNS rebinding)', async () => {
    zone.set('rebinding.test', (count) => [count % 2 === 1 ? '127.0.0.2' : '127.0.0.1']);
    const before = allowedEndpoint.requests.length;
    // The first query is made by the registration, the second by the first attempt, the third by the second attempt.
    const webhook = await registerWebhook(me, `http://rebinding.test:${allowedEndpoint.port}/`);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.tries], ['delivered', 2]);
    assert.equal(allowedEndpoint.requests.length, before + 1);
    assert.deepEqual(privateEndpoint.requests, []);
  });

  test('that resolves to a private address after the registration is not delivered to', async () => {
    zone.set('moved.test', (count) => [count === 1 ? '127.0.0.2' : '127.0.0.1']);
    const webhook = await registerWebhook(me, `http://moved.test:${allowedEndpoint.port}/`);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.last_result], ['failed', 'denied']);
    assert.match(
      delivery.last_error ?? '',
      /The host moved\.test does not exist, or not all of its addresses are public/,
    );
    assert.deepEqual(privateEndpoint.requests, []);
  });

  const redirects: [toLocation: (port: number) => string, description: string][] = [
    [(port) => `http://127.0.0.1:${port}/`, 'loopback'],
    [(port) => `http://2130706433:${port}/`, 'loopback as a decimal number'],
    [(port) => `http://[::ffff:127.0.0.1]:${port}/`, 'loopback as IPv4-mapped IPv6'],
    [(port) => `//127.0.0.1:${port}/`, 'loopback, without a scheme'],
    [(port) => `http://loopback.test:${port}/`, 'a name that resolves to loopback'],
    [() => 'http://169.254.169.254/latest/meta-data/', 'a cloud metadata service'],
    [(port) => `http://user:secret@127.0.0.2:${port}/`, 'an address with a password'],
    [() => 'file:///etc/passwd', 'a file'],
    [() => 'http://[', 'an invalid URL'],
  ];
  for (const status of [301, 302, 307, 308]) {
    for (const [toLocation, description] of redirects) {
      test(`is not delivered to after a redirect (${status}) to ${description}`, async () => {
        allowedEndpoint.respondWith(() => ({ status, location: toLocation(allowedEndpoint.port) }));
        const webhook = await registerWebhook(me, `http://127.0.0.2:${allowedEndpoint.port}/${status}`);
        const delivery = await sendTestEvent(me, webhook);
        const isInvalid = description === 'an invalid URL';
        assert.deepEqual([delivery.state, delivery.last_result], ['failed', isInvalid ? '3xx' : 'denied']);
        assert.match(delivery.last_error ?? '', isInvalid ? /\(3xx\)/ : /Events cannot be sent to this URL/);
        assert.deepEqual(privateEndpoint.requests, []);
        await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`);
      });
    }
  }

  test('is followed through at most three allowed redirects, with the same message', async () => {
    const countBefore = allowedEndpoint.requests.length;
    allowedEndpoint.respondWith(({ path }) => (path === '/end' ? { status: 200 } : { status: 307, location: '/end' }));
    const webhook = await registerWebhook(me, `http://127.0.0.2:${allowedEndpoint.port}/start`);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
    const [first, second] = allowedEndpoint.requests.slice(countBefore);
    assert.deepEqual([first?.path, second?.path, second?.method], ['/start', '/end', 'POST']);
    assert.equal(second?.body, first?.body);
    assert.equal(second?.headers['webhook-signature'], first?.headers['webhook-signature']);

    allowedEndpoint.respondWith(() => ({ status: 308, location: '/again' }));
    const endless = await registerWebhook(me, `http://127.0.0.2:${allowedEndpoint.port}/endless`);
    const delivery = await sendTestEvent(me, endless);
    assert.deepEqual([delivery.state, delivery.last_result], ['failed', '3xx']);
  });

  test('never reached the private endpoint in any of these tests', () => {
    assert.deepEqual(privateEndpoint.requests, []);
  });
});

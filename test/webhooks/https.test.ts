import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Caller } from '../support/api.ts';
import { createAuthority, type TestAuthority } from '../support/certificates.ts';
import { contractOf } from '../support/contract.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { register, send, tested, webhookConfig } from '../support/webhooks.ts';

describe('a receiver behind https', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-https-'));
  let authority: TestAuthority;
  let dns: DnsServer;
  let server: TestServer;
  let me: Caller;
  const receivers: Receiver[] = [];

  before(async () => {
    authority = await createAuthority(join(folder, 'trusted'));
    dns = await startDnsServer(() => ['127.0.0.1']);
    const config = webhookConfig({ allowHttp: false, nameServers: [dns.address], retrySeconds: [] });
    server = await startServer({ config, env: { NODE_EXTRA_CA_CERTS: authority.file } });
    me = (await contractOf(server)).as(server.userToken);
  });
  after(async () => {
    await server.dispose();
    for (const receiver of receivers) await receiver.close();
    await dns.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function receiver(tls?: { key: string; cert: string }): Promise<Receiver> {
    const one = await startReceiver(tls === undefined ? {} : { tls });
    receivers.push(one);
    return one;
  }

  test('is delivered to by its name, which the certificate is for, though the connection goes to an address', async () => {
    const to = await receiver(await authority.issue('DNS:receiver.test'));
    const webhook = await register(me, `https://receiver.test:${to.port}/`);
    assert.equal((await tested(me, webhook)).state, 'delivered');
    assert.equal(to.received[0]?.headers.host, `receiver.test:${to.port}`);
  });

  test('is delivered to by its address', async () => {
    const to = await receiver(await authority.issue('IP:127.0.0.1'));
    assert.equal((await tested(me, await register(me, `${to.url}/`))).state, 'delivered');
  });

  test('is not trusted with a certificate for another name, or of nobody', async () => {
    const strangers = await createAuthority(join(folder, 'strangers'));
    for (const tls of [await authority.issue('DNS:another.test'), await strangers.issue('DNS:wrong.test')]) {
      const to = await receiver(tls);
      const delivery = await tested(me, await register(me, `https://wrong.test:${to.port}/`));
      assert.equal(delivery.state, 'failed');
      assert.match(delivery.last_error ?? '', /cannot be reached: (ERR_TLS_CERT|UNABLE_TO|SELF_SIGNED)/);
      assert.deepEqual(to.received, []);
    }
  });

  test('may not lead on to plain http', async () => {
    const plain = await receiver();
    const to = await receiver(await authority.issue('IP:127.0.0.1'));
    to.react(() => ({ status: 307, location: plain.url }));
    const delivery = await tested(me, await register(me, `${to.url}/`));
    assert.deepEqual([delivery.state, delivery.last_status], ['failed', 307]);
    assert.match(delivery.last_error ?? '', /Use an https address/);
    assert.deepEqual(plain.received, []);
  });

  test('is what it takes, unless the configuration says otherwise', async () => {
    const { status } = await send(me, 'POST', '/webhooks/', { url: 'http://receiver.test/', events: ['*'] });
    assert.equal(status, 400);
  });
});

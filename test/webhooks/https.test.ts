import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Caller } from '../support/api.ts';
import { type CertificateAuthority, createCertificateAuthority } from '../support/certificates.ts';
import { contractOf } from '../support/contract.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import { registerWebhook, sendJson, sendTestEvent, webhookConfig } from '../support/webhooks.ts';

describe('a receiver behind https', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-https-'));
  let authority: CertificateAuthority;
  let dns: DnsServer;
  let server: ServerProcess;
  let me: Caller;
  const receivers: TestEndpoint[] = [];

  before(async () => {
    authority = await createCertificateAuthority(join(folder, 'trusted'));
    dns = await startDnsServer(() => ['127.0.0.1']);
    const config = webhookConfig({ allowHttp: false, nameServers: [dns.address], retrySeconds: [] });
    server = await spawnServer({ config, env: { NODE_EXTRA_CA_CERTS: authority.certificateFile } });
    me = (await contractOf(server)).as(server.userToken);
  });
  after(async () => {
    await server.dispose();
    for (const receiver of receivers) await receiver.close();
    await dns.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function receiver(tls?: { key: string; cert: string }): Promise<TestEndpoint> {
    const one = await startEndpoint(tls === undefined ? {} : { tls });
    receivers.push(one);
    return one;
  }

  test('is delivered to by its name, which the certificate is for, though the connection goes to an address', async () => {
    const to = await receiver(await authority.issue('DNS:receiver.test'));
    const webhook = await registerWebhook(me, `https://receiver.test:${to.port}/`);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
    assert.equal(to.requests[0]?.headers.host, `receiver.test:${to.port}`);
  });

  test('is delivered to by its address', async () => {
    const to = await receiver(await authority.issue('IP:127.0.0.1'));
    assert.equal((await sendTestEvent(me, await registerWebhook(me, `${to.url}/`))).state, 'delivered');
  });

  test('is not trusted with a certificate for another name, or of nobody', async () => {
    const strangers = await createCertificateAuthority(join(folder, 'strangers'));
    for (const tls of [await authority.issue('DNS:another.test'), await strangers.issue('DNS:wrong.test')]) {
      const to = await receiver(tls);
      const delivery = await sendTestEvent(me, await registerWebhook(me, `https://wrong.test:${to.port}/`));
      assert.equal(delivery.state, 'failed');
      assert.match(delivery.last_error ?? '', /cannot be reached: (ERR_TLS_CERT|UNABLE_TO|SELF_SIGNED)/);
      assert.deepEqual(to.requests, []);
    }
  });

  test('may not lead on to plain http', async () => {
    const plain = await receiver();
    const to = await receiver(await authority.issue('IP:127.0.0.1'));
    to.respondWith(() => ({ status: 307, location: plain.url }));
    const delivery = await sendTestEvent(me, await registerWebhook(me, `${to.url}/`));
    assert.deepEqual([delivery.state, delivery.last_status], ['failed', 307]);
    assert.match(delivery.last_error ?? '', /Use an https URL/);
    assert.deepEqual(plain.requests, []);
  });

  test('is what it takes, unless the configuration says otherwise', async () => {
    const { status } = await sendJson(me, 'POST', '/webhooks/', { url: 'http://receiver.test/', events: ['*'] });
    assert.equal(status, 400);
  });
});

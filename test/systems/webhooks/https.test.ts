import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Caller } from '../../support/api.ts';
import { type CertificateAuthority, createCertificateAuthority } from '../../support/certificates.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import { type DnsServer, startDnsServer } from '../../support/dns-server.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import { sendJson, sendTestEvent, type Webhook, webhookConfig, webhookTuning } from '../../support/webhooks.ts';

describe('webhook delivery over https', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-https-'));
  let authority: CertificateAuthority;
  let dns: DnsServer;
  let server: ServerProcess;
  let me: Caller;
  const endpoints: TestEndpoint[] = [];

  before(async () => {
    authority = await createCertificateAuthority(join(folder, 'trusted'));
    dns = await startDnsServer(() => ['127.0.0.1']);
    const tuning = {
      ...webhookTuning,
      nameServers: [dns.address],
      // The name server is in the process of the test, which a busy machine can stop for longer than a resolver waits.
      ...{ webhookRetrySeconds: [0.1], webhookTimeoutMs: 10_000 },
    };
    const config = webhookConfig({ allowHttp: false });
    server = await spawnServer({ config, tuning, env: { NODE_EXTRA_CA_CERTS: authority.certificateFile } });
    me = (await loadOpenApiContract(server)).callerFor(server.userToken);
  });
  after(async () => {
    await server.dispose();
    for (const endpoint of endpoints) await endpoint.close();
    await dns.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const register = (url: string) =>
    until('the name is resolved', async () => {
      const { status, body, text } = await sendJson<Webhook>(me, 'POST', '/webhooks/', { url, events: ['*'] });
      if (status === 503) return undefined;
      assert.equal(status, 201, text);
      return body;
    });

  async function openEndpoint(tls?: { key: string; cert: string }): Promise<TestEndpoint> {
    const endpoint = await startEndpoint(tls === undefined ? {} : { tls });
    endpoints.push(endpoint);
    return endpoint;
  }

  test('checks the certificate against the host name, although the connection goes to the resolved address', async () => {
    const endpoint = await openEndpoint(await authority.issue('DNS:endpoint.test'));
    const webhook = await register(`https://endpoint.test:${endpoint.port}/`);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
    assert.equal(endpoint.requests[0]?.headers.host, `endpoint.test:${endpoint.port}`);
  });

  test('accepts a certificate for an IP address', async () => {
    const endpoint = await openEndpoint(await authority.issue('IP:127.0.0.1'));
    assert.equal((await sendTestEvent(me, await register(`${endpoint.url}/`))).state, 'delivered');
  });

  test('rejects a certificate for another name or of an unknown authority', async () => {
    const unknownAuthority = await createCertificateAuthority(join(folder, 'unknown'));
    for (const tls of [await authority.issue('DNS:another.test'), await unknownAuthority.issue('DNS:wrong.test')]) {
      const endpoint = await openEndpoint(tls);
      const delivery = await sendTestEvent(me, await register(`https://wrong.test:${endpoint.port}/`));
      assert.equal(delivery.state, 'failed');
      assert.equal(delivery.last_result, 'unreachable');
      const logged = new RegExp(`"delivery":${delivery.id},.*"detail":"(ERR_TLS_CERT|UNABLE_TO|SELF_SIGNED)`);
      await until('the log says why', () => logged.test(server.log()) || undefined);
      assert.deepEqual(endpoint.requests, []);
    }
  });

  test('does not follow a redirect to plain http', async () => {
    const plain = await openEndpoint();
    const endpoint = await openEndpoint(await authority.issue('IP:127.0.0.1'));
    endpoint.respondWith(() => ({ status: 307, location: plain.url }));
    const delivery = await sendTestEvent(me, await register(`${endpoint.url}/`));
    assert.deepEqual([delivery.state, delivery.last_result], ['failed', 'denied']);
    assert.match(delivery.last_error ?? '', /Use an https URL/);
    assert.deepEqual(plain.requests, []);
  });

  test('refuses to register an http URL unless the configuration allows it', async () => {
    const { status } = await sendJson(me, 'POST', '/webhooks/', { url: 'http://endpoint.test/', events: ['*'] });
    assert.equal(status, 400);
  });
});

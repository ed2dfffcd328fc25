import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import Provider from 'oidc-provider';
import { parse } from 'yaml';
import { createCaller, type Job, type Quota } from '../../support/api.ts';
import { startServer, type TestServer } from '../../support/server.ts';

const audience = 'https://bursar.test';
const shipped = parse(readFileSync(new URL('../../../config/bursar.yaml', import.meta.url), 'utf8'));

/** A real OpenID provider whose clients get JWT access tokens for Bursar, with roles from their names. */
async function startProvider() {
  const server: Server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const client = (name: string) => ({
    client_id: name,
    client_secret: 'secret',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  });
  const provider = new Provider(issuer, {
    clients: ['ada', 'grace', 'admin', 'elsewhere'].map(client),
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'one' }] },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, resource) => ({
          scope: '',
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: 'jwt',
        }),
      },
    },
    extraTokenClaims: (_context, token) => ({ roles: [token.clientId === 'admin' ? 'bursar-admin' : 'user'] }),
  });
  server.on('request', provider.callback());

  async function token(clientId: string, resource = audience): Promise<string> {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${clientId}:secret`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
    });
    return ((await response.json()) as { access_token: string }).access_token;
  }
  return { issuer, server, token, privateKey };
}

describe('access tokens of an OpenID provider', () => {
  let provider: Awaited<ReturnType<typeof startProvider>>;
  let server: TestServer;
  before(async () => {
    provider = await startProvider();
    const oidc = [{ issuer: provider.issuer, audience, adminClaim: 'roles' }];
    server = await startServer({ config: { ...shipped, auth: { oidc } } });
  });
  after(async () => {
    await server.dispose();
    provider.server.close();
  });

  test('the first request of a subject creates a user with a numeric id and the default grants', async () => {
    const quotas = (await createCaller(server.url, await provider.token('ada')).get<Quota[]>('/quotas/')).body;
    assert.equal(quotas.length, 3);
    assert.match(quotas[0]?.user ?? '', /^\d{6,}$/);
    assert.equal(quotas[0]?.time_left, 18_000_000);
  });

  test('each subject is one user', async () => {
    const userOf = async (name: string) =>
      (await createCaller(server.url, await provider.token(name)).get<Quota[]>('/quotas/')).body[0]?.user;
    assert.equal(await userOf('ada'), await userOf('ada'));
    assert.notEqual(await userOf('ada'), await userOf('grace'));
  });

  test('ten concurrent first requests of a subject create one user', async () => {
    const token = await provider.token('elsewhere');
    const responses = await Promise.all(
      Array.from({ length: 10 }, () => createCaller(server.url, token).get<Quota[]>('/quotas/')),
    );
    assert.equal(new Set(responses.map(({ body }) => body[0]?.user)).size, 1);
  });

  test('a job belongs to the user who submitted it', async () => {
    const me = createCaller(server.url, await provider.token('ada'));
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(status, 201);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    assert.deepEqual((await createCaller(server.url, await provider.token('grace')).get<Job[]>('/jobs/')).body, []);
  });

  test('a user with the configured claim is an administrator', async () => {
    const path = '/admin/quotas/301330/';
    assert.equal((await createCaller(server.url, await provider.token('admin')).get(path)).status, 200);
    assert.equal((await createCaller(server.url, await provider.token('ada')).get(path)).status, 403);
  });

  const assertRejected = async (token: string) => {
    const response = await createCaller(server.url, token).get<{ code: string }>('/jobs/');
    assert.deepEqual([response.status, response.body.code], [401, 'token_invalid']);
  };

  test('rejects a token for another audience', async () => {
    await assertRejected(await provider.token('ada', 'https://other.test'));
  });

  test('rejects a token that is signed with another key or not signed', async () => {
    const { privateKey } = await generateKeyPair('RS256');
    const forged = new SignJWT({}).setProtectedHeader({ alg: 'RS256', kid: 'one' }).setSubject('ada');
    await assertRejected(
      await forged.setIssuer(provider.issuer).setAudience(audience).setExpirationTime('1h').sign(privateKey),
    );
    const [, claims] = (await provider.token('ada')).split('.');
    const header = Buffer.from('{"alg":"none"}').toString('base64url');
    await assertRejected(`${header}.${claims}.x`);
  });

  test('rejects a token that is expired, has no expiry or is from an unknown issuer', async () => {
    const sign = (token: SignJWT, issuer = provider.issuer) =>
      token
        .setProtectedHeader({ alg: 'RS256', kid: 'one' })
        .setSubject('ada')
        .setAudience(audience)
        .setIssuer(issuer)
        .sign(provider.privateKey);
    await assertRejected(await sign(new SignJWT({}).setExpirationTime(Math.floor(Date.now() / 1000) - 60)));
    await assertRejected(await sign(new SignJWT({})));
    await assertRejected(await sign(new SignJWT({}).setExpirationTime('1h'), 'https://nobody.test'));
  });
});

test('returns 503 with Retry-After, not 401, if the provider cannot be reached', async () => {
  const oidc = [{ issuer: 'http://127.0.0.1:9', audience }];
  const server = await startServer({ config: { ...shipped, auth: { oidc } } });
  try {
    const { privateKey } = await generateKeyPair('RS256');
    const jwt = new SignJWT({}).setProtectedHeader({ alg: 'RS256' }).setIssuer('http://127.0.0.1:9').setSubject('x');
    const token = await jwt.setAudience(audience).setExpirationTime('1h').sign(privateKey);
    const response = await createCaller(server.url, token).get('/jobs/');
    assert.equal(response.status, 503);
    assert.ok(response.headers.get('retry-after'));
  } finally {
    await server.dispose();
  }
});

test('returns 503, not 401, if the keys of the provider cannot be read', async () => {
  let keys: { status: number; body: string } = { status: 200, body: '' };
  const provider = createServer((request, response) => {
    const isDiscovery = request.url?.endsWith('/openid-configuration');
    const { status, body } = isDiscovery ? { status: 200, body: JSON.stringify({ jwks_uri: `${issuer}/keys` }) } : keys;
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  provider.listen(0, '127.0.0.1');
  await once(provider, 'listening');
  const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const server = await startServer({ config: { ...shipped, auth: { oidc: [{ issuer, audience }] } } });
  try {
    const { privateKey } = await generateKeyPair('RS256');
    const jwt = new SignJWT({}).setProtectedHeader({ alg: 'RS256' }).setIssuer(issuer).setSubject('x');
    const token = await jwt.setAudience(audience).setExpirationTime('1h').sign(privateKey);
    for (keys of [
      { status: 500, body: '{}' },
      { status: 200, body: 'not JSON' },
      { status: 200, body: '{"keys": 7}' },
    ]) {
      const { status, body } = await createCaller(server.url, token).get<{ code: string }>('/jobs/');
      assert.deepEqual([status, body.code], [503, 'unavailable'], keys.body);
    }
  } finally {
    await server.dispose();
    provider.close();
  }
});

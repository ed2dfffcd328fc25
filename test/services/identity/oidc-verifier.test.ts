import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { type CryptoKey, decodeJwt, exportSPKI, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import type { OidcConfig } from '../../../src/config/oidc-schema.ts';
import { validateConfig } from '../../../src/config/validate.ts';
import { createOidcClients } from '../../../src/services/identity/oidc/clients.ts';
import { createOidcVerifier } from '../../../src/services/identity/oidc/verifier.ts';
import { audience, clientSecret, startProvider, type TestProvider } from '../../support/oidc-provider.ts';

// Access tokens of a real OpenID provider. The clock of Bursar is moved, that of the provider is not.

const invalid = { code: 'token_invalid' };
const away = { code: 'unavailable', retryAfterSeconds: 5 };
const minuteMs = 60_000;

let provider: TestProvider;
before(async () => {
  provider = await startProvider();
});
after(() => provider.stop());

function configure(settings: object): OidcConfig {
  const oidc = [{ issuer: provider.issuer, audience, ...settings }];
  const systems = { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }] } };
  const [config] = validateConfig({ oidc, systems }, 'test').oidc;
  assert.ok(config);
  return config;
}

/** A verifier of its own for each test, with a clock that starts at the present. */
function createVerifier(settings: object = {}, others: OidcConfig[] = []) {
  const clock = { now: Date.now() };
  const now = () => clock.now;
  const verifier = createOidcVerifier([configure(settings), ...others], createOidcClients(now), now);
  return { verify: verifier.verify, clock };
}

const countRequests = (path: string) => provider.requests.filter((each) => each === path).length;

describe('a JWT', () => {
  test('is accepted with its subject and the configured claims', async () => {
    provider.claims.ada = { name: 'Ada Lovelace', email: 'ada@example.org', realm: { number: 4711 } };
    const { verify } = createVerifier({ claims: { user: 'realm.number' } });
    const token = await provider.token('ada');
    assert.deepEqual(await verify(token), {
      issuer: provider.issuer,
      subject: 'ada',
      issuedAt: (decodeJwt(token).iat ?? 0) * 1000,
      userId: '4711',
      name: 'Ada Lovelace',
      mail: 'ada@example.org',
      role: null,
      memberships: [],
      syncMemberships: false,
    });
    await assert.rejects(verify(await provider.token('grace')), { ...invalid, message: /claim "realm.number"/ });
    // A number that JSON cannot carry exactly could be that of another person.
    for (const number of [2 ** 53, 1.5, -1, 'ada', ['1']])
      await assert.rejects(verify(await provider.sign({ realm: { number } })), invalid, String(number));
  });

  test('with claims that databases cannot store as they are is refused, or they are corrected', async () => {
    const { verify } = createVerifier();
    for (const sub of [{ id: 'ada' }, ['ada'], 7, '', 'a\0b', 'half of a character: \ud83d'])
      await assert.rejects(verify(await provider.sign({ sub })), invalid, JSON.stringify(sub));
    const iat = Math.floor(Date.now() / 1000) - 10 + 0.1234567;
    const name = `\u001b[31m A\0da\n${'x'.repeat(190)}${'😀'.repeat(10)}`;
    const identity = await verify(await provider.sign({ sub: 'ada', iat, name }));
    assert.equal(identity?.issuedAt, Math.floor(iat * 1000));
    assert.match(identity?.name ?? '', /^\[31m A da x/);
    assert.ok(identity?.name?.isWellFormed());
  });

  test('gives the highest role of its groups, and their projects', async () => {
    provider.claims.ada = { realm_access: { roles: ['staff', 'root', 'climate', 'climate-leads', '__proto__', 7] } };
    const { verify } = createVerifier({
      claims: { groups: 'realm_access.roles' },
      roles: { root: 'administrator', staff: 'auditor' },
      projects: { 'climate-leads': { project: 'hpc_one/climate', role: 'manager' }, climate: 'hpc_one/climate' },
    });
    const identity = await verify(await provider.token('ada'));
    assert.equal(identity?.role, 'administrator');
    assert.deepEqual(identity.memberships, [{ hpc: 'hpc_one', project: 'climate', role: 'manager' }]);
    assert.equal((await verify(await provider.token('grace')))?.role, 'user');
  });

  test('is rejected for another audience, without subject, and after its end', async () => {
    const { verify } = createVerifier();
    await assert.rejects(verify(await provider.token('ada', 'https://other.test')), invalid);
    await assert.rejects(verify(await provider.sign({ sub: undefined })), invalid);
    await assert.rejects(verify(await provider.sign({ exp: undefined })), invalid);
    await assert.rejects(verify(await provider.sign({ exp: Math.floor(Date.now() / 1000) - 60 })), {
      ...invalid,
      message: /expired/,
    });
  });

  test('may differ from the clock by the tolerated skew, in both directions', async () => {
    const { verify, clock } = createVerifier();
    const start = Math.floor(clock.now / 1000) * 1000;
    const seconds = start / 1000;
    const token = await provider.sign({ nbf: seconds, iat: seconds, exp: seconds + 600 });
    const onlyIssued = await provider.sign({ iat: seconds, exp: seconds + 600 });
    for (const offset of [-30, 629]) {
      clock.now = start + offset * 1000;
      assert.equal((await verify(token))?.subject, 'ada', `${offset} s`);
    }
    for (const offset of [-31, 630]) {
      clock.now = start + offset * 1000;
      await assert.rejects(verify(token), invalid, `${offset} s`);
      await assert.rejects(verify(onlyIssued), invalid, `${offset} s`);
    }
  });

  test('without a signature of the issuer is rejected', async () => {
    const { verify } = createVerifier();
    const { privateKey } = await generateKeyPair('RS256');
    const [header, claims, signature] = (await provider.sign()).split('.');
    const forged = new SignJWT({ iss: provider.issuer, aud: audience, sub: 'ada' });
    await assert.rejects(
      verify(await forged.setExpirationTime('1h').setProtectedHeader({ alg: 'RS256', kid: 'key-1' }).sign(privateKey)),
      invalid,
    );
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const last of ['', signature, 'x'])
      await assert.rejects(verify(`${encode({ alg: 'none' })}.${claims}.${last}`), invalid);
    // The public key as the secret of an HMAC, as text and as the bytes of its modulus.
    const { keys } = (await (await fetch(`${provider.issuer}/jwks`)).json()) as { keys: JWK[] };
    const jwk = keys[0] ?? {};
    const publicKey = await exportSPKI((await importJWK(jwk, 'RS256')) as CryptoKey);
    for (const secret of [publicKey, Buffer.from(jwk.n ?? '', 'base64url')]) {
      const signed = `${encode({ alg: 'HS256', kid: jwk.kid })}.${claims}`;
      const mac = createHmac('sha256', secret).update(signed).digest('base64url');
      await assert.rejects(verify(`${signed}.${mac}`), invalid);
    }
    assert.equal((await verify(`${header}.${claims}.${signature}`))?.subject, 'ada');
  });

  test('of another type is rejected', async () => {
    const { verify } = createVerifier();
    for (const typ of ['JWT', 'at+jwt', 'application/at+jwt'])
      assert.equal((await verify(await provider.sign({}, { typ })))?.subject, 'ada', typ);
    assert.equal((await verify(await provider.sign({ nonce: 'x', typ: 'Bearer' })))?.subject, 'ada');
    for (const typ of ['logout+jwt', 'dpop+jwt', 'secevent+jwt'])
      await assert.rejects(verify(await provider.sign({}, { typ })), { ...invalid, message: /not an access token/ });
    for (const claims of [{ at_hash: 'x' }, { typ: 'ID' }, { nonce: 'x' }, { events: {} }])
      await assert.rejects(verify(await provider.sign(claims)), { ...invalid, message: /not an access token/ });
  });

  test('of a client that is not listed is rejected', async () => {
    const { verify } = createVerifier({ clients: ['ada', 'portal'] });
    assert.equal((await verify(await provider.token('ada')))?.subject, 'ada');
    assert.equal((await verify(await provider.sign({ azp: 'portal' })))?.subject, 'ada');
    await assert.rejects(verify(await provider.token('grace')), { ...invalid, message: /client "grace"/ });
    await assert.rejects(verify(await provider.sign({ azp: 'other', client_id: 'portal' })), invalid);
    await assert.rejects(verify(await provider.sign()), invalid);
  });

  test('of an issuer that is not configured is unknown', async () => {
    const { verify } = createVerifier();
    assert.equal(await verify(await provider.sign({ iss: 'https://nobody.test' })), undefined);
    assert.equal(await verify(await provider.sign({ iss: `${provider.issuer}/` })), undefined);
  });

  test('of each of several issuers is checked by the keys of its own issuer', async () => {
    const other = await startProvider();
    try {
      const { verify } = createVerifier({}, [{ ...configure({}), issuer: other.issuer, audience: 'https://b.test' }]);
      const identity = await verify(await other.token('ada', 'https://b.test'));
      assert.deepEqual([identity?.issuer, identity?.subject], [other.issuer, 'ada']);
      assert.equal((await verify(await provider.token('ada')))?.issuer, provider.issuer);
      await assert.rejects(verify(await other.sign({ iss: provider.issuer })), invalid);
      await assert.rejects(verify(await other.token('ada')), invalid);
    } finally {
      await other.stop();
    }
  });
});

describe('the keys of an issuer', () => {
  test('are fetched again for an unknown key, at most once a minute', async () => {
    const { verify, clock } = createVerifier();
    await verify(await provider.token('ada'));
    const fetches = countRequests('/jwks');
    await provider.rotateKeys();
    const rotated = await provider.token('ada');
    await assert.rejects(verify(rotated), invalid);
    assert.equal(countRequests('/jwks'), fetches);
    clock.now += minuteMs;
    assert.equal((await verify(rotated))?.subject, 'ada');
    assert.equal(countRequests('/jwks'), fetches + 1);
    const invented = await Promise.all(
      Array.from({ length: 20 }, (_, index) => provider.sign({}, { kid: `none-${index}` })),
    );
    clock.now += minuteMs - 1;
    await Promise.all(invented.map((token) => assert.rejects(verify(token), invalid)));
    assert.equal(countRequests('/jwks'), fetches + 1);
    clock.now += 1;
    await Promise.all(invented.map((token) => assert.rejects(verify(token), invalid)));
    assert.equal(countRequests('/jwks'), fetches + 2);
  });

  test('that it has withdrawn are no longer used after ten minutes', async () => {
    const { verify, clock } = createVerifier();
    const token = await provider.sign({ exp: Math.floor(clock.now / 1000) + 3600 });
    await verify(token);
    await provider.rotateKeys();
    assert.equal((await verify(token))?.subject, 'ada');
    clock.now += 10 * minuteMs;
    await assert.rejects(verify(token), invalid);
  });

  test('stay in use while it is away; what cannot be checked is 503, and works again when it is back', async () => {
    const { verify, clock } = createVerifier();
    const lasting = await provider.sign({ exp: Math.floor(clock.now / 1000) + 24 * 3600 });
    await verify(lasting);
    await provider.rotateKeys();
    const rotated = await provider.sign({ exp: Math.floor(clock.now / 1000) + 24 * 3600 });
    const fresh = createVerifier();
    await provider.stop();
    try {
      for (const passed of [minuteMs, 60 * minuteMs]) {
        clock.now += passed;
        assert.equal((await verify(lasting))?.subject, 'ada');
        await assert.rejects(verify(rotated), away);
      }
      await assert.rejects(fresh.verify(lasting), away);
    } finally {
      await provider.start();
    }
    const fetches = countRequests('/.well-known/openid-configuration');
    // The failure is remembered for some seconds.
    await assert.rejects(fresh.verify(rotated), away);
    assert.equal(countRequests('/.well-known/openid-configuration'), fetches);
    fresh.clock.now += 5000;
    assert.equal((await fresh.verify(rotated))?.subject, 'ada');
    clock.now += minuteMs;
    assert.equal((await verify(rotated))?.subject, 'ada');
  });
});

describe('an opaque token', () => {
  const settings = { introspection: true, clientId: 'bursar', clientSecret };

  test('is accepted by introspection, which is cached for some seconds', async () => {
    provider.claims['opaque-ada'] = { sub: 'ada', name: 'Ada' };
    const { verify, clock } = createVerifier(settings);
    const token = await provider.token('opaque-ada');
    assert.ok(!token.includes('.'));
    const identity = await verify(token);
    assert.deepEqual([identity?.issuer, identity?.subject, identity?.name], [provider.issuer, 'ada', 'Ada']);
    const requests = countRequests('/token/introspection');
    await Promise.all(Array.from({ length: 10 }, () => verify(token)));
    assert.equal(countRequests('/token/introspection'), requests);
    await provider.revoke('opaque-ada', token);
    assert.equal((await verify(token))?.subject, 'ada');
    clock.now += 30_000;
    assert.equal(await verify(token), undefined);
    assert.equal(countRequests('/token/introspection'), requests + 1);
    assert.equal(await verify(token), undefined);
    assert.equal(countRequests('/token/introspection'), requests + 1);
  });

  test('is rejected for another audience and after its end, also from the cache', async () => {
    const { verify, clock } = createVerifier(settings);
    await assert.rejects(verify(await provider.token('opaque-ada', 'https://other.test')), invalid);
    const token = await provider.token('opaque-ada');
    clock.now += 605_000;
    await verify(token);
    clock.now += 29_000;
    await assert.rejects(verify(token), { ...invalid, message: /expired/ });
  });

  test('of Bursar is not sent to the issuer, nor any without introspection', async () => {
    const requests = countRequests('/token/introspection');
    assert.equal(await createVerifier(settings).verify('bursar_unknown'), undefined);
    assert.equal(await createVerifier().verify('unknown'), undefined);
    assert.equal(countRequests('/token/introspection'), requests);
  });

  test('that the issuer does not accept does not affect others', async () => {
    const { verify } = createVerifier(settings);
    const structured = (await provider.sign({ iss: undefined })).replace(/\.[^.]*$/, '.x');
    assert.equal(await verify(structured), undefined);
    assert.equal((await verify(await provider.token('opaque-ada')))?.subject, 'ada');
  });

  test('is 503 while the issuer is away or refuses Bursar, and works again after it', async () => {
    const token = await provider.token('opaque-ada');
    const { verify, clock } = createVerifier(settings);
    await provider.stop();
    await assert.rejects(verify(token), away);
    await provider.start();
    await assert.rejects(verify(token), away);
    clock.now += 5000;
    assert.equal((await verify(token))?.subject, 'ada');
    await assert.rejects(createVerifier({ ...settings, clientSecret: 'wrong' }).verify(token), away);
  });

  test('is looked up at each issuer with introspection', async () => {
    const other = await startProvider({ claims: { 'opaque-ada': { sub: 'ada' } } });
    try {
      const { verify } = createVerifier(settings, [{ ...configure(settings), issuer: other.issuer }]);
      assert.equal((await verify(await other.token('opaque-ada')))?.issuer, other.issuer);
      assert.equal(await verify('unknown'), undefined);
    } finally {
      await other.stop();
    }
  });
});

interface TestResponse {
  status: number;
  body: string;
  location?: string;
}

/** Starts an issuer whose responses are these, by path. */
async function startIssuer(respond: (request: IncomingMessage, body: string) => TestResponse) {
  const server = createServer(async (request, response) => {
    const { status, body, location } = respond(request, await text(request));
    const headers = { 'content-type': 'application/json', ...(location === undefined ? {} : { location }) };
    response.writeHead(status, headers).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

const ok = (body: object) => ({ status: 200, body: JSON.stringify(body) });

test('Bursar authenticates itself for introspection as the issuer says', async (t) => {
  const seen: string[] = [];
  for (const methods of [undefined, ['client_secret_basic', 'client_secret_post'], ['client_secret_post']]) {
    const { issuer, close } = await startIssuer(({ url = '', headers }, body) => {
      const endpoint = {
        introspection_endpoint: `${issuer}/introspect`,
        introspection_endpoint_auth_methods_supported: methods,
      };
      if (url !== '/introspect') return ok({ issuer, jwks_uri: `${issuer}/keys`, ...endpoint });
      seen.push(`${headers.authorization ?? ''} ${body}`);
      return ok({ active: true, sub: 'ada', aud: audience });
    });
    t.after(close);
    const credentials = { introspection: true, clientId: 'bursar', clientSecret: 'a b' };
    assert.equal((await createVerifier({ issuer, ...credentials }).verify('opaque'))?.subject, 'ada');
  }
  const basic = `Basic ${Buffer.from('bursar:a+b').toString('base64')} token_type_hint=access_token&token=opaque`;
  const post = ' token_type_hint=access_token&token=opaque&client_id=bursar&client_secret=a+b';
  assert.deepEqual(seen, [basic, basic, post]);
});

test('a discovery document or keys that are not valid are 503, not 401', async (t) => {
  let document: unknown;
  let location: string | undefined;
  let keys = { status: 200, body: '{"keys":[]}' };
  const { issuer, close } = await startIssuer(({ url }) => {
    if (url?.startsWith('/keys')) return keys;
    if (location !== undefined && url !== location) return { status: 302, body: '', location };
    return ok(document as object);
  });
  t.after(close);
  const token = await provider.sign({ iss: issuer }, { kid: 'x' });
  const verify = () => createVerifier({ issuer }).verify(token);
  const valid = { issuer, jwks_uri: `${issuer}/keys` };
  for (document of [{}, [], { ...valid, issuer: `${issuer}/` }, { issuer }, { ...valid, jwks_uri: 'file:///etc' }])
    await assert.rejects(verify(), away, JSON.stringify(document));
  document = { ...valid, padding: 'x'.repeat(1_000_000) };
  await assert.rejects(verify(), away);
  document = valid;
  location = '/elsewhere';
  await assert.rejects(verify(), away, 'a redirect');
  location = undefined;
  for (keys of [
    { status: 500, body: '{}' },
    { status: 302, body: '{}' },
    { status: 200, body: 'not JSON' },
    { status: 200, body: '{"keys": 7}' },
    { status: 200, body: JSON.stringify({ keys: [{ kty: 'RSA', kid: 'x', e: 'x', n: 'x' }] }) },
  ])
    await assert.rejects(verify(), away, keys.body);
  keys = { status: 200, body: '{"keys":[]}' };
  await assert.rejects(verify(), invalid);
});

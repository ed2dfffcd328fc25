import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose';
import Provider, { type Configuration } from 'oidc-provider';
import { freePorts } from './ports.ts';

export const audience = 'https://bursar.test';
export const clientSecret = 'the-secret-of-every-client';

type Claims = Record<string, unknown>;

export interface ProviderOptions {
  /** The claims of each account, and of each client that gets tokens for itself. They can be changed later. */
  claims?: Record<string, Claims>;
  /** Whether claims of people are at the userinfo endpoint only. Its access tokens of people are for that endpoint. */
  claimsInUserInfo?: boolean;
}

export interface TestProvider {
  issuer: string;
  claims: Record<string, Claims>;
  /** The paths of all requests. */
  requests: string[];
  /** Gets an access token for a client itself. Those of clients named `opaque…` are opaque, the others are JWTs. */
  token(client: string, resource?: string): Promise<string>;
  revoke(client: string, token: string): Promise<void>;
  /** Signs a JWT with the current key, to make tokens that the provider would not. Undefined removes a claim. */
  sign(claims?: Claims, header?: Partial<JWTHeaderParameters>): Promise<string>;
  /** Replaces the key by a new one with another id. */
  rotateKeys(): Promise<void>;
  /** Sets the addresses to which the client `bursar` may send a browser back. */
  setRedirectUris(uris: string[], afterSignOut?: string[]): void;
  /** Does what a person in a browser does: signs in and consents. Returns the first address beyond the provider. */
  signIn(url: string, account: string): Promise<string>;
  /** Refuses connections until `start`. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/**
 * Starts a real OpenID provider. Its clients: `bursar` is confidential, signs people in by the authorization code, and may
 * introspect tokens; `bursar-cli` is public and has the device flow; all others get tokens for themselves.
 */
export async function startProvider({
  claims = {},
  claimsInUserInfo = false,
}: ProviderOptions = {}): Promise<TestProvider> {
  const requests: string[] = [];
  let handle: RequestListener = () => undefined;
  // Its own until the end of the test: `start` needs it again after `stop`.
  const [port = 0] = await freePorts(1);
  let server = await listen();
  const issuer = `http://127.0.0.1:${port}`;
  let key = await createKey('key-1');
  let keyNumber = 1;
  let redirectUris = { redirect_uris: ['http://127.0.0.1/callback'], post_logout_redirect_uris: [] as string[] };
  configure();

  async function listen(): Promise<Server> {
    const created = createServer((request, response) => {
      requests.push(new URL(request.url ?? '', 'http://provider').pathname);
      handle(request, response);
    });
    created.listen(port, '127.0.0.1');
    await once(created, 'listening');
    return created;
  }

  function configure(): void {
    handle = new Provider(issuer, {
      ...providerConfiguration(claims, claimsInUserInfo),
      jwks: { keys: [key.jwk] },
      clients: clientConfiguration(redirectUris),
    }).callback();
  }

  async function post(path: string, client: string, body: Record<string, string>): Promise<Response> {
    const authorization = `Basic ${Buffer.from(`${client}:${clientSecret}`).toString('base64')}`;
    const response = await fetch(issuer + path, {
      method: 'POST',
      headers: { authorization },
      body: new URLSearchParams(body),
    });
    if (!response.ok) throw new Error(`${path} responded with ${response.status}: ${await response.text()}`);
    return response;
  }

  return {
    issuer,
    claims,
    requests,
    async token(client, resource = audience) {
      const response = await post('/token', client, { grant_type: 'client_credentials', resource });
      return ((await response.json()) as { access_token: string }).access_token;
    },
    async revoke(client, token) {
      await post('/token/revocation', client, { token });
    },
    async sign(changes = {}, header = {}) {
      const now = Math.floor(Date.now() / 1000);
      const payload = { iss: issuer, aud: audience, sub: 'ada', iat: now, exp: now + 600, ...changes };
      return await new SignJWT(payload)
        .setProtectedHeader({ alg: 'RS256', kid: key.jwk.kid, ...header })
        .sign(key.privateKey);
    },
    async rotateKeys() {
      key = await createKey(`key-${++keyNumber}`);
      configure();
    },
    setRedirectUris(uris, afterSignOut = []) {
      redirectUris = { redirect_uris: uris, post_logout_redirect_uris: afterSignOut };
      configure();
    },
    signIn: (url, account) => signIn(issuer, url, account),
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
    async start() {
      server = await listen();
    },
  };
}

async function createKey(kid: string) {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
  return { privateKey, publicKey, jwk: { ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid } };
}

const ownTokenClients = ['ada', 'grace', 'admin', 'elsewhere', 'opaque-ada', 'opaque-grace'];

function clientConfiguration(redirectUris: { redirect_uris: string[]; post_logout_redirect_uris: string[] }) {
  const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
  return [
    ...ownTokenClients.map((name) => ({
      client_id: name,
      client_secret: clientSecret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    {
      client_id: 'bursar',
      client_secret: clientSecret,
      grant_types: ['authorization_code', 'refresh_token'],
      ...redirectUris,
    },
    {
      client_id: 'bursar-cli',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      grant_types: [deviceGrant, 'refresh_token'],
      redirect_uris: [],
      response_types: [],
    },
  ] as NonNullable<Configuration['clients']>;
}

function providerConfiguration(claims: Record<string, Claims>, claimsInUserInfo: boolean): Configuration {
  return {
    cookies: { keys: ['a key of the tests'] },
    claims: { openid: ['sub'], profile: ['name', 'groups', 'user_number'], email: ['email'] },
    conformIdTokenClaims: claimsInUserInfo,
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...claims[id] }) }),
    ttl: { AccessToken: 600, ClientCredentials: 600, DeviceCode: 600, Grant: 3600, IdToken: 600, Interaction: 600 },
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: !claimsInUserInfo,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context, resource, client) => ({
          scope: '',
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: client.clientId.startsWith('opaque') ? 'opaque' : 'jwt',
        }),
      },
    },
    extraTokenClaims(_context, token) {
      const subject = ('accountId' in token ? token.accountId : undefined) ?? token.clientId ?? '';
      return { sub: subject, ...claims[subject] };
    },
  };
}

/** Submits the forms of the provider, with cookies, until it redirects to another address. */
async function signIn(issuer: string, url: string, account: string): Promise<string> {
  const cookies = new Map<string, string>();
  let next: { url: string; body?: URLSearchParams } = { url };
  for (let step = 0; step < 20; step++) {
    const { body } = next;
    const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
    const response = await fetch(next.url, {
      headers,
      redirect: 'manual',
      ...(body === undefined ? {} : { method: 'POST', body }),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    const location = response.headers.get('location');
    const text = await response.text();
    if (location !== null) {
      next = { url: new URL(location, next.url).href };
      if (!next.url.startsWith(issuer)) return next.url;
    } else if (/<form/.test(text)) {
      next = submitForm(next.url, text, account);
    } else return text;
  }
  throw new Error('the sign-in does not end');
}

function submitForm(page: string, html: string, account: string): { url: string; body: URLSearchParams } {
  const [, action = ''] = /<form[^>]* action="([^"]*)"/.exec(html) ?? [];
  const body = new URLSearchParams();
  for (const [input] of html.matchAll(/<input[^>]*>/g)) {
    const attribute = (name: string) => new RegExp(` ${name}="([^"]*)"`).exec(input)?.[1];
    body.set(attribute('name') ?? '', attribute('value') ?? '');
  }
  if (body.has('login')) {
    body.set('login', account);
    body.set('password', 'any');
  }
  return { url: new URL(action.replaceAll('&amp;', '&'), page).href, body };
}

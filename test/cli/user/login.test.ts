import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { ProfileFile } from '../../../src/cli/user/profiles/store.ts';
import { createCaller } from '../../support/api.ts';
import { formFields } from '../../support/browser.ts';
import { audience, clientSecret, startProvider, type TestProvider } from '../../support/oidc-provider.ts';
import { type ProgramOutcome, runProgram, startProgram } from '../../support/program.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { signIn } from '../../support/sign-in.ts';
import { until } from '../../support/until.ts';

// Sign-in of the command line: by the device flow of a real OpenID provider, by that of Bursar itself, and with a token.

const user = '303201';

describe('bursar login', () => {
  let server: TestServer;
  let provider: TestProvider;
  let home: string;
  let token: string;

  before(async () => {
    provider = await startProvider({ claims: { ada: { user_number: '303202', name: 'Ada' } } });
    const oidc = {
      ...{ issuer: provider.issuer, name: 'University', audience, clientId: 'bursar', clientSecret },
      ...{ deviceClientId: 'bursar-cli', claims: { user: 'user_number' }, scopes: 'openid offline_access' },
    };
    server = await startServer({ config: { ...shippedConfig(), oidc: [oidc] } });
    token = await server.token(user);
  });
  after(async () => {
    await server.dispose();
    await provider.stop();
  });
  beforeEach((context) => {
    home = mkdtempSync(join(tmpdir(), 'bursar-login-'));
    'after' in context && context.after(() => rmSync(home, { recursive: true }));
  });

  const env = () => ({ HOME: home, XDG_CONFIG_HOME: join(home, 'config'), XDG_CACHE_HOME: join(home, 'cache') });
  const run = (...args: string[]) => runProgram(args, env());
  const profilePath = () => join(home, 'config/bursar/profiles.json');
  const profiles = () => JSON.parse(readFileSync(profilePath(), 'utf8')) as ProfileFile;

  /** Starts a command and returns it together with the line that tells the user what to confirm. */
  async function start(...args: string[]): Promise<{ address: string; code: string; ended: Promise<ProgramOutcome> }> {
    const { stderr, ended } = startProgram(args, env());
    const [, address = '', code = ''] = await until('a code', () => {
      return /Open (\S+) in a browser, and confirm the code (\S+)\./.exec(stderr()) ?? undefined;
    });
    return { address, code, ended };
  }

  test('signs in by the device flow of the OpenID provider, and refreshes the token once for all commands', async () => {
    const { address, ended } = await start('login', server.url);
    assert.ok(address.startsWith(provider.issuer), address);
    await provider.signIn(address, 'ada');
    const { code, stderr } = await ended;
    assert.equal(code, 0, stderr);
    assert.match(stderr, /Signed in at http:\S+ as 303202, profile "default"\./);
    assert.equal(statSync(profilePath()).mode & 0o777, 0o600);
    assert.equal((await run('whoami', '--json')).code, 0);

    const file = profiles();
    const { default: profile } = file.profiles;
    assert.ok(profile?.issuer?.refresh_token, 'the provider issues a refresh token');
    writeFileSync(
      profilePath(),
      JSON.stringify({ ...file, profiles: { default: { ...profile, expires_at: new Date().toISOString() } } }),
    );
    const before = provider.requests.filter((path) => path === '/token').length;
    const results = await Promise.all([run('whoami'), run('quota'), run('jobs')]);
    assert.deepEqual(
      results.map((result) => [result.code, result.stderr]),
      [
        [0, ''],
        [0, ''],
        [0, ''],
      ],
    );
    assert.equal(provider.requests.filter((path) => path === '/token').length - before, 1);
    assert.notEqual(profiles().profiles.default?.token, profile?.token);

    assert.deepEqual(await run('logout'), {
      code: 0,
      stdout: '',
      stderr: 'Signed out: the profile "default" is removed.\n',
    });
    assert.ok(provider.requests.includes('/token/revocation'));
    assert.equal((await run('whoami')).code, 4);
  });

  test("signs in by Bursar's own device flow, and logout revokes the token", async () => {
    const { address, code, ended } = await start('login', server.url, '--issuer', 'bursar', '--scopes', 'jobs:read');
    const browser = await signIn(server, user);
    const page = await browser.get(address);
    assert.ok(page.text.includes(code));
    const confirmed = await browser.submit('/device/', { ...formFields(page.text), decision: 'approved' });
    assert.equal(confirmed.status, 200);
    const { code: exitCode, stderr } = await ended;
    assert.equal(exitCode, 0, stderr);
    const profile = profiles().profiles.default;
    assert.equal(profile?.user, user);
    const me = JSON.parse((await run('whoami', '--json')).stdout);
    assert.deepEqual([me.user, me.scopes], [user, ['jobs:read']]);
    assert.equal((await run('logout')).code, 0);
    assert.equal((await createCaller(server.url, profile?.token ?? '').get('/me/')).status, 401);
  });

  test('--token stores a token from standard input, and logout leaves it valid', async () => {
    const { code, stderr } = await runProgram(['login', server.url, '--token'], env(), { stdin: `${token}\n` });
    assert.equal(code, 0, stderr);
    assert.equal(profiles().profiles.default?.token, token);
    assert.equal((await run('logout')).code, 0);
    assert.equal((await createCaller(server.url, token).get('/me/')).status, 200);
  });

  test('several profiles are listed without tokens, and chosen by use, --profile and BURSAR_PROFILE', async () => {
    const first = await run('login', server.url, '--token', token);
    assert.match(first.stderr, /, profile "default"\.\nCommands use this profile by default\.\n$/);
    const second = await run('login', server.url, '--token', server.adminToken, '--profile', 'admin');
    assert.match(second.stderr, /, profile "admin"\.\nBy default commands use the profile "default"\. .*use admin\n$/);
    const { stdout } = await run('profiles', '--json');
    assert.doesNotMatch(stdout, /bursar_/);
    const list = JSON.parse(stdout) as { name: string; current: boolean; user: string }[];
    assert.deepEqual(
      list.map(({ name, current, user: owner }) => [name, current, owner]),
      [
        ['default', true, user],
        ['admin', false, '300001'],
      ],
    );
    const whoami = async (settings: Record<string, string>, ...args: string[]) =>
      JSON.parse((await runProgram(['whoami', '--json', ...args], { ...env(), ...settings })).stdout).user;
    assert.equal(await whoami({}), user);
    assert.equal(await whoami({}, '--profile', 'admin'), '300001');
    assert.equal(await whoami({ BURSAR_PROFILE: 'admin' }), '300001');
    assert.equal(await whoami({ BURSAR_TOKEN: server.adminToken }), '300001');
    assert.equal((await run('profiles', 'use', 'admin')).stderr, 'By default commands use the profile "admin".\n');
    assert.equal(await whoami({}), '300001');
    const again = await run('login', server.url, '--token', token, '--profile', 'default');
    assert.match(again.stderr, /By default commands use the profile "admin"/);
    assert.equal(await whoami({}), '300001');
    const unknown = await run('whoami', '--profile', 'nobody');
    assert.deepEqual([unknown.code, unknown.stderr.split('\n')[1]], [2, 'Use one of: default, admin']);
  });

  test('never sends a token where it could be read: not to another server, and not over plain HTTP', async () => {
    assert.equal((await run('login', server.url, '--token', token)).code, 0);
    const other = await runProgram(['whoami'], { ...env(), BURSAR_URL: 'https://bursar.example.org' });
    assert.deepEqual(
      [other.code, other.stderr.split('\n')[0]],
      [4, 'error: You are not signed in at https://bursar.example.org.'],
    );
    const plain = await runProgram(['whoami'], {
      ...env(),
      BURSAR_URL: 'http://bursar.example.org',
      BURSAR_TOKEN: token,
    });
    assert.equal(plain.code, 2);
    assert.match(plain.stderr, /does not encrypt.*\n.*--insecure/);
  });

  test('a file of profiles that others can read is refused', async () => {
    assert.equal((await run('login', server.url, '--token', token)).code, 0);
    chmodSync(profilePath(), 0o644);
    const { code, stderr } = await run('whoami');
    assert.equal(code, 1);
    assert.match(stderr, /Other users can read .*\nRun: chmod 600 /);
  });

  test('--verbose shows requests and the request id, but no token', async () => {
    const { code, stderr } = await runProgram(['--verbose', 'job', 'show', 'x', '--json'], {
      ...env(),
      BURSAR_URL: server.url,
      BURSAR_TOKEN: 'bursar_wrong',
    });
    assert.equal(code, 4);
    assert.match(stderr, /> GET \/job-summaries\/\S+ 401 \(\d+ ms\)/);
    assert.match(stderr, /request id: \S+/);
    assert.doesNotMatch(stderr, /bursar_wrong/);
  });
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { stringify } from 'yaml';
import { formatConfig } from '../../src/config/format.ts';
import { loadConfig } from '../../src/config/load.ts';
import { Reference, referencesKey, referenceTags } from '../../src/config/references.ts';
import type { Config } from '../../src/config/schema.ts';
import { BursarError } from '../../src/domain/errors.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-test-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const systems = { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }] } };
const oidc = { issuer: 'https://idp.test', audience: 'bursar', clientId: 'bursar' };

function load(settings: object, environment: NodeJS.ProcessEnv = {}): Config {
  const file = join(folder, 'bursar.yaml');
  writeFileSync(file, stringify({ systems, ...settings }, { customTags: referenceTags }));
  return loadConfig({ ...environment, BURSAR_CONFIG: file });
}

function secretFile(content: string, mode = 0o600): string {
  const file = join(folder, 'secret');
  // It may be one that its owner cannot write.
  rmSync(file, { force: true });
  writeFileSync(file, content);
  chmodSync(file, mode);
  return file;
}

/** The messages of the invalid settings. */
function errorsOf(settings: object, environment: NodeJS.ProcessEnv = {}): Record<string, string> {
  try {
    load(settings, environment);
  } catch (error) {
    assert.ok(error instanceof BursarError && error.code === 'invalid_config', String(error));
    for (const { field, message } of error.fields) assert.ok(error.message.includes(`${field}: ${message}`));
    return Object.fromEntries(error.fields.map(({ field, message }) => [field, message]));
  }
  return {};
}

const fileReference = (path: string) => new Reference('file', path);
const variable = (name: string) => new Reference('env', name);

const tokenOf = (token: string | Reference, environment: NodeJS.ProcessEnv = {}) =>
  load({ metrics: { token } }, environment).metrics.token;
const secret = 'a secret of many characters';

describe('references in the configuration', () => {
  test('are replaced by the content of a file, without one newline at its end, or by a variable', () => {
    for (const [content, value] of [
      [secret, secret],
      [`${secret}\n`, secret],
      [`${secret}\r\n`, secret],
      [`${secret}\n\n`, `${secret}\n`],
      [` ${secret} `, ` ${secret} `],
    ] as const)
      assert.equal(tokenOf(fileReference(secretFile(content))), value);
    assert.equal(tokenOf(variable('TOKEN'), { TOKEN: secret }), secret);
  });

  test('can be in lists, and in lists and objects of one line', () => {
    const environment = { PROXY: '10.0.0.1', TOKEN: secret };
    const settings = { server: { trustProxy: [variable('PROXY')] } };
    assert.deepEqual(load(settings, environment).server.trustProxy, ['10.0.0.1']);
    const file = join(folder, 'flow.yaml');
    writeFileSync(file, `{ systems: ${JSON.stringify(systems)}, metrics: { token: !env TOKEN } }`);
    assert.equal(loadConfig({ ...environment, BURSAR_CONFIG: file }).metrics.token, secret);
  });

  test('to a file without / at the start name a credential of systemd', () => {
    mkdirSync(join(folder, 'credentials'), { recursive: true });
    writeFileSync(join(folder, 'credentials', 'token'), secret, { mode: 0o400 });
    const config = load(
      { metrics: { token: fileReference('token') } },
      { CREDENTIALS_DIRECTORY: join(folder, 'credentials') },
    );
    assert.equal(config.metrics.token, secret);
    assert.deepEqual(config[referencesKey]?.files, [join(folder, 'credentials', 'token')]);
  });

  test('are tags: text that looks like one is text, also in values and in variables of Bursar', () => {
    const text = '!env TOKEN of sixteen';
    assert.equal(tokenOf(text), text);
    assert.equal(tokenOf(variable('TOKEN'), { TOKEN: text }), text);
    assert.equal(load({}, { BURSAR_METRICS_TOKEN: text }).metrics.token, text);
  });
});

describe('a reference that cannot be resolved', () => {
  const problem = (token: Reference, environment?: NodeJS.ProcessEnv) =>
    errorsOf({ metrics: { token } }, environment)['metrics.token'] ?? '';

  test('to a file is reported with its setting and what to do', () => {
    const missing = join(folder, 'missing');
    assert.equal(problem(fileReference(missing)), `!file ${missing}: the file does not exist`);
    assert.match(problem(fileReference('relative/path')), /must begin with \/.*LoadCredential=/);
    assert.match(problem(fileReference(folder)), /not a file/);
    for (const content of ['', '\n']) assert.match(problem(fileReference(secretFile(content))), /is empty/);
    assert.match(problem(fileReference(secretFile('x'.repeat(70_000)))), /larger than/);
    const binary = secretFile('');
    writeFileSync(binary, Buffer.alloc(32, 0xff));
    assert.match(problem(fileReference(binary)), /not text in UTF-8/);
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', ['-m', '600', pipe]);
    assert.match(problem(fileReference(pipe)), /not a file/);
  });

  test('to a file that other users can read or write is refused, with the command to run; a group is accepted', () => {
    for (const mode of [0o604, 0o602, 0o644]) {
      const file = secretFile(secret, mode);
      assert.equal(
        problem(fileReference(file)),
        `!file ${file}: other users of this host have access to the file. Run "chmod o-rwx ${file}"`,
      );
    }
    for (const mode of [0o400, 0o640, 0o660]) assert.equal(problem(fileReference(secretFile(secret, mode))), '');
  });

  test('to a variable is reported', () => {
    assert.equal(problem(variable('NOWHERE')), '!env NOWHERE: the environment variable NOWHERE is not set');
    assert.equal(problem(variable('EMPTY'), { EMPTY: '' }), '!env EMPTY: the environment variable EMPTY is empty');
  });

  test('is reported if it has no name, with all others', () => {
    assert.match(problem(variable('')), /is empty/);
    const errors = errorsOf({ metrics: { token: variable('A') }, log: { file: variable('B') }, data: variable('C') });
    assert.deepEqual(Object.keys(errors).sort(), ['data', 'log.file', 'metrics.token']);
  });

  test('with an unknown tag, or with a list, is refused with its line', () => {
    for (const value of ['!flie /x', '!file [/x]', '!env { NAME: x }']) {
      const file = join(folder, 'bursar.yaml');
      writeFileSync(file, `data: ${value}\n`);
      assert.throws(() => loadConfig({ BURSAR_CONFIG: file }), { code: 'invalid_config', message: /line 1/ }, value);
    }
  });

  test('for a number is refused: a reference is always text', () => {
    const errors = errorsOf({ server: { port: variable('PORT') } }, { PORT: '98765' });
    assert.match(errors['server.port'] ?? '', /must be integer, and a reference is always text/);
  });
});

test('the key of webhook secrets is a reference to 32 bytes in base64', () => {
  const key = Buffer.alloc(32, 7).toString('base64');
  const errorOf = (secretKey: unknown, value = key) =>
    errorsOf({ webhooks: { secretKey } }, { KEY: value })['webhooks.secretKey'];
  assert.equal(errorOf(variable('KEY')), undefined);
  assert.match(errorOf(key) ?? '', /must be a reference/);
  assert.match(errorOf(variable('KEY'), 'c2hvcnQ=') ?? '', /openssl rand/);
});

describe('printing a configuration', () => {
  const again = (text: string, environment: NodeJS.ProcessEnv) => {
    const file = join(folder, 'printed.yaml');
    writeFileSync(file, text);
    return loadConfig({ ...environment, BURSAR_CONFIG: file });
  };

  test('shows references, and hides the secrets of the file itself', () => {
    const settings = {
      metrics: { token: variable('SECRET') },
      database: { url: variable('URL') },
      oidc: [{ ...oidc, clientSecret: secret }],
      log: { file: 'postgres://u:literal@h/name' },
    };
    const printed = JSON.parse(formatConfig(load(settings, { SECRET: secret, URL: 'postgres://u:p@h/d' }), 'json'));
    assert.deepEqual(
      [printed.metrics.token, printed.database.url, printed.oidc[0].clientSecret, printed.log.file],
      ['!env SECRET', '!env URL', '*'.repeat(16), 'postgres://u:********@h/name'],
    );
  });

  test('gives a configuration with the same values again', () => {
    const settings = {
      metrics: { token: variable('SECRET') },
      log: { file: fileReference(secretFile('a path')) },
      data: '!env SECRET',
    };
    const config = load(settings, { SECRET: secret });
    assert.deepEqual(again(formatConfig(config, 'yaml'), { SECRET: secret }), config);
  });

  test('and errors never reveal a value of a reference', () => {
    const texts = [
      'data',
      'host',
      'token',
      'url',
      'clientSecret',
      'proxy',
      'network',
      'issuer',
      'project',
      'level',
    ] as const;
    const around = fc.constantFrom('', 'x', 'postgres://u:', 'https://', '@host/db', ':', '/');
    const generated = fc.record({
      secret: fc.stringMatching(/^[A-Za-z0-9@:/?#%${}. -]{6,30}$/).map((text) => `S3cr${text}`),
      setting: fc.constantFrom(...texts),
      before: around,
      after: around,
    });
    const property = fc.property(generated, ({ secret: part, setting, before, after }) => {
      const textOf = (name: (typeof texts)[number], other?: string) => (name === setting ? variable('SECRET') : other);
      const settings = {
        ...(setting === 'data' && { data: textOf('data') }),
        ...(setting === 'level' && { log: { level: textOf('level') } }),
        ...(setting === 'token' && { metrics: { token: textOf('token') } }),
        ...(setting === 'url' && { database: { url: textOf('url') } }),
        server: { host: textOf('host', '127.0.0.1'), trustProxy: [textOf('proxy', '10.0.0.1')] },
        webhooks: { allowNetworks: [textOf('network', '10.0.0.0/8')] },
        oidc: [{ ...oidc, clientSecret: textOf('clientSecret', secret), issuer: textOf('issuer', oidc.issuer) }],
        systems: { hpc_one: { kind: 'batch', projects: [{ name: textOf('project', 'proj') }] } },
      };
      let output: string;
      try {
        const config = load(settings, { SECRET: `${before}${part}${after}` });
        output = formatConfig(config, 'yaml') + formatConfig(config, 'json');
      } catch (error) {
        output = `${(error as Error).message} ${JSON.stringify(error)}`;
      }
      for (const shown of [part, encodeURIComponent(part), 'S3cr']) assert.ok(!output.includes(shown), output);
    });
    fc.assert(property, { numRuns: 100 });
  });
});

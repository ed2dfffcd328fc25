import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { parse, stringify } from 'yaml';
import { parseDatabaseUrl } from '../../src/config/database-url.ts';
import { formatConfig } from '../../src/config/format.ts';
import { loadConfig } from '../../src/config/load.ts';
import { referencesKey } from '../../src/config/references.ts';
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
  writeFileSync(file, stringify({ systems, ...settings }));
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

const tokenOf = (token: string, environment: NodeJS.ProcessEnv = {}) =>
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
      assert.equal(tokenOf(`\${file:${secretFile(content)}}`), value);
    assert.equal(tokenOf('${env:TOKEN}', { TOKEN: secret }), secret);
  });

  test('can be a part of a text, several in one, in lists, and in variables of Bursar', () => {
    assert.equal(tokenOf('a-${env:A}-${env:B}-end-of-token', { A: '1', B: '2' }), 'a-1-2-end-of-token');
    assert.deepEqual(load({ server: { trustProxy: ['${env:PROXY}'] } }, { PROXY: '10.0.0.1' }).server.trustProxy, [
      '10.0.0.1',
    ]);
    const environment = { BURSAR_METRICS_TOKEN: '${env:OTHER}', OTHER: secret };
    assert.equal(load({}, environment).metrics.token, secret);
  });

  test('can contain references, such as the folder of the credentials of systemd', () => {
    mkdirSync(join(folder, 'credentials'), { recursive: true });
    writeFileSync(join(folder, 'credentials', 'token'), secret, { mode: 0o400 });
    const environment = { CREDENTIALS_DIRECTORY: join(folder, 'credentials') };
    const token = '${file:${env:CREDENTIALS_DIRECTORY}/token}';
    assert.equal(tokenOf(token, environment), secret);
    assert.deepEqual(load({ metrics: { token } }, environment)[referencesKey]?.files, [
      join(folder, 'credentials', 'token'),
    ]);
  });

  test('are not searched for in values, nor in names', () => {
    assert.equal(
      tokenOf('${env:TOKEN}', { TOKEN: '${env:HOME} and ${file:/etc/passwd}', HOME: '/x' }),
      '${env:HOME} and ${file:/etc/passwd}',
    );
    assert.deepEqual(Object.keys(errorsOf({ '${env:X}': 1 }, { X: 'server' })), ['${env:X}']);
  });

  test('are written literally with $${, and variables of a shell are no references', () => {
    assert.equal(tokenOf('$${env:TOKEN} of sixteen'), '${env:TOKEN} of sixteen');
    for (const text of ['${HOME}/of/some/shell', '${name:-default value}', '$HOME, $(x), {y}, $$ ...'])
      assert.equal(tokenOf(text), text);
  });

  test('in the user and the password of a URL are percent-encoded, and nowhere else', () => {
    const urlOf = (url: string, environment: NodeJS.ProcessEnv) =>
      load({ database: { url } }, environment).database.url;
    const password = 'p@ss/w:rd?#%${';
    const file = secretFile(`${password}\n`);
    const address = parseDatabaseUrl(
      urlOf(`postgres://\${env:NAME}:\${file:${file}}@\${env:AT}/bursar`, { NAME: 'a b', AT: 'db.test:5433' }),
    );
    assert.deepEqual(address.kind === 'postgres' && [address.user, address.password, address.host, address.port], [
      'a b',
      password,
      'db.test',
      5433,
    ]);
    const whole = 'postgres://bursar:p%40ss@db.test/bursar';
    assert.equal(urlOf('${env:URL}', { URL: whole }), whole);
  });
});

describe('a reference that cannot be resolved', () => {
  const problem = (token: string, environment?: NodeJS.ProcessEnv) =>
    errorsOf({ metrics: { token } }, environment)['metrics.token'] ?? '';

  test('to a file is reported with its setting and what to do', () => {
    const missing = join(folder, 'missing');
    assert.equal(problem(`\${file:${missing}}`), `\${file:${missing}}: the file does not exist`);
    assert.match(problem('${file:relative/path}'), /must begin with \//);
    assert.match(problem(`\${file:${folder}}`), /not a file/);
    for (const content of ['', '\n']) assert.match(problem(`\${file:${secretFile(content)}}`), /is empty/);
    assert.match(problem(`\${file:${secretFile('x'.repeat(70_000))}}`), /larger than/);
    const binary = secretFile('');
    writeFileSync(binary, Buffer.alloc(32, 0xff));
    assert.match(problem(`\${file:${binary}}`), /not text in UTF-8/);
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', ['-m', '600', pipe]);
    assert.match(problem(`\${file:${pipe}}`), /not a file/);
  });

  test('to a file that other users can read or write is refused, with the command to run; a group is accepted', () => {
    for (const mode of [0o604, 0o602, 0o644]) {
      const file = secretFile(secret, mode);
      assert.equal(
        problem(`\${file:${file}}`),
        `\${file:${file}}: other users of this host have access to the file. Run "chmod o-rwx ${file}"`,
      );
    }
    for (const mode of [0o400, 0o640, 0o660]) assert.equal(problem(`\${file:${secretFile(secret, mode)}}`), '');
  });

  test('to a variable is reported', () => {
    assert.equal(problem('${env:NOWHERE}'), '${env:NOWHERE}: the environment variable NOWHERE is not set');
    assert.equal(problem('${env:EMPTY}', { EMPTY: '' }), '${env:EMPTY}: the environment variable EMPTY is empty');
  });

  test('is reported if it is written wrongly, with all others', () => {
    assert.match(problem('${flie:/x}'), /not a reference: write .*\$\$\{/);
    assert.match(problem('${file:/x'), /no closing/);
    assert.match(problem('${env:}'), /is empty/);
    const errors = errorsOf({ metrics: { token: '${env:A}' }, log: { file: '${env:B}' }, data: '${env:C}' });
    assert.deepEqual(Object.keys(errors).sort(), ['data', 'log.file', 'metrics.token']);
  });

  test('for a number is refused: a reference is always text', () => {
    const errors = errorsOf({ server: { port: '${env:PORT}' } }, { PORT: '98765' });
    assert.match(errors['server.port'] ?? '', /must be integer, and a reference is always text/);
  });
});

describe('keys of secrets', () => {
  const key = Buffer.alloc(32, 7).toString('base64');
  test('are references to 32 bytes in base64, each with a name of its own', () => {
    const reference = '${env:KEY}';
    assert.deepEqual(errorsOf({ secrets: { keys: [{ id: 'a', key: reference }] } }, { KEY: key }), {});
    const message = (keys: object[], value = key) => errorsOf({ secrets: { keys } }, { KEY: value });
    assert.match(message([{ id: 'a', key }])['secrets.keys.0.key'] ?? '', /must be a reference/);
    assert.match(message([{ id: 'a', key: reference }], 'c2hvcnQ=')['secrets.keys.0.key'] ?? '', /openssl rand/);
    const twice = [
      { id: 'a', key: reference },
      { id: 'a', key: reference },
    ];
    assert.match(message(twice)['secrets.keys.1.id'] ?? '', /listed twice/);
  });
});

describe('printing a configuration', () => {
  test('shows references, and hides the secrets of the file itself', () => {
    const url = 'postgres://bursar:${env:SECRET}@db.test/bursar';
    const settings = {
      metrics: { token: '${env:SECRET}' },
      database: { url },
      auth: { oidc: [{ ...oidc, clientSecret: '${env:SECRET}' }] },
    };
    const printed = parse(formatConfig(load(settings, { SECRET: secret }), 'yaml'));
    assert.deepEqual(
      [printed.metrics.token, printed.database.url, printed.auth.oidc[0].clientSecret],
      ['${env:SECRET}', url, '${env:SECRET}'],
    );
    const mixed = {
      metrics: { token: 'literal-start-${env:SECRET}' },
      database: { url: 'postgres://u:literal${env:SECRET}@h/${env:NAME}' },
    };
    const hidden = parse(formatConfig(load(mixed, { SECRET: secret, NAME: 'db' }), 'json'));
    assert.deepEqual(
      [hidden.metrics.token, hidden.database.url],
      ['*'.repeat(16), 'postgres://u:********@h/${env:NAME}'],
    );
  });

  test('gives a configuration with the same values again, also with literal references', () => {
    const settings = { metrics: { token: '${env:SECRET}' }, data: '$${env:SECRET}/$$${HOME}/{x}' };
    const config = load(settings, { SECRET: secret });
    assert.equal(config.data, '${env:SECRET}/$${HOME}/{x}');
    const again = load(parse(formatConfig(config, 'yaml')), { SECRET: secret });
    assert.deepEqual(again, config);
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
      value: fc.stringMatching(/^[A-Za-z0-9@:/?#%${}. -]{6,30}$/).map((text) => `S3cr${text}`),
      setting: fc.constantFrom(...texts),
      before: around,
      after: around,
    });
    const property = fc.property(generated, ({ value, setting, before, after }) => {
      const text = `${before}\${env:SECRET}${after}`;
      const textOf = (name: (typeof texts)[number]) => (name === setting ? text : undefined);
      const settings = JSON.parse(
        JSON.stringify({
          ...{ data: textOf('data'), log: { level: textOf('level') } },
          server: { host: textOf('host'), trustProxy: [textOf('proxy') ?? '10.0.0.1'] },
          ...{ metrics: { token: textOf('token') }, database: { url: textOf('url') } },
          webhooks: { allowNetworks: [textOf('network') ?? '10.0.0.0/8'] },
          auth: {
            oidc: [{ ...oidc, clientSecret: textOf('clientSecret'), issuer: textOf('issuer') ?? oidc.issuer }],
          },
          systems: { hpc_one: { kind: 'batch', projects: [{ name: textOf('project') ?? 'proj' }] } },
        }),
      );
      let output: string;
      try {
        const config = load(settings, { SECRET: value });
        output = formatConfig(config, 'yaml') + formatConfig(config, 'json');
      } catch (error) {
        output = `${(error as Error).message} ${JSON.stringify(error)}`;
      }
      for (const shown of [value, encodeURIComponent(value), 'S3cr']) assert.ok(!output.includes(shown), output);
    });
    fc.assert(property, { numRuns: 100 });
  });
});

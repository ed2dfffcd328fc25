import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import { formatConfig } from '../../src/config/format.ts';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import type { Config } from '../../src/config/schema.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { BursarError } from '../../src/domain/errors.ts';
import { shippedConfig } from '../support/shipped-config.ts';

/** The smallest valid configuration. */
const minimalConfig = () => ({ systems: { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }] } } });

/** A configuration with one tool system that has one tool. */
function configWithTool(tool: object) {
  const system = { kind: 'tool', projects: [{ name: 'proj' }], tools: { TOOL: { command: ['run'], ...tool } } };
  return { systems: { hpc_two: system } };
}

/** Returns the error message of each invalid field; empty if the configuration is valid. */
function fieldErrors(config: unknown): Record<string, string> {
  try {
    validateConfig(config, 'test.yaml');
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_config');
    assert.match(error.message, /test\.yaml/);
    for (const { field, message } of error.fields) assert.ok(error.message.includes(`${field}: ${message}`));
    return Object.fromEntries(error.fields.map(({ field, message }) => [field, message]));
  }
  return {};
}

describe('validateConfig', () => {
  test('accepts the shipped configuration', () => {
    const config = validateConfig(shippedConfig(), 'shipped');
    assert.deepEqual(Object.keys(config.systems), ['hpc_one', 'hpc_two']);
    const systems = toHpcSystems(config);
    assert.deepEqual(
      [...systems.values()].map(({ name, kind }) => [name, kind]),
      [
        ['hpc_one', 'batch'],
        ['hpc_two', 'tool'],
      ],
    );
    assert.deepEqual(systems.get('hpc_two')?.jobId, { style: 'prefixed', prefix: 'BURSAR-JOB' });
  });

  test('adds valid defaults', () => {
    const config = validateConfig(minimalConfig(), 'test');
    assert.deepEqual(config.server, {
      ...{ host: '127.0.0.1', port: 8080, trustProxy: [] },
      ...{ requestTimeoutSeconds: 3600, drainSeconds: 20 },
    });
    const system = config.systems.hpc_one;
    assert.deepEqual(system?.limits, { nodes: 64, coresPerNode: 128, runtimeHours: 48, files: 200_000 });
    assert.deepEqual(system?.projects, [
      { name: 'proj', autoJoin: true, grant: { timeSeconds: 18_000_000, spaceKb: 10_000_000 } },
    ]);
    assert.deepEqual(validateConfig(structuredClone(config), 'second pass'), config);
  });

  test('checks the keys about the isolation of jobs', () => {
    const errorsOf = (keys: object) => {
      const config = minimalConfig();
      Object.assign(config.systems.hpc_one, keys);
      return fieldErrors(config);
    };
    assert.deepEqual(errorsOf({ isolation: 'bubblewrap', network: false, readOnly: ['/opt', '/srv/modules'] }), {});
    assert.deepEqual(errorsOf({ engine: { kind: 'slurm' }, scheduler: true }), {});
    assert.match(
      errorsOf({ scheduler: true })['systems.hpc_one.scheduler'] ?? '',
      /only a system with engine.kind slurm/,
    );
    for (const isolation of ['auto', 'none']) {
      const message = errorsOf({ isolation, network: false })['systems.hpc_one.network'];
      assert.match(message ?? '', /only with isolation: bubblewrap/);
    }
    for (const path of ['/', '/proc', '/run/munge', '/var', '/dev/shm', '/tmp/x', '/opt/../etc', '/opt/', '//opt'])
      assert.match(errorsOf({ readOnly: [path] })['systems.hpc_one.readOnly'] ?? '', /such as \/opt|write it/, path);
    assert.match(errorsOf({ isolation: 'docker' })['systems.hpc_one.isolation'] ?? '', /auto, bubblewrap, none/);
  });

  test('checks the keys of OpenID providers', () => {
    const provider = { issuer: 'https://idp.test', audience: 'bursar' };
    const errorsOf = (...oidc: object[]) => fieldErrors({ ...minimalConfig(), auth: { oidc } });
    const valid = {
      ...provider,
      clientId: 'bursar',
      clientSecret: 'secret',
      introspection: true,
      clockSkewSeconds: 300,
      claims: { user: 'uid', groups: 'realm_access.roles' },
      roles: { staff: 'operator' },
      projects: { '/climate': 'hpc_one/climate', leads: { project: 'hpc_one/climate', role: 'manager' } },
      syncMemberships: true,
    };
    assert.deepEqual(errorsOf(provider, { ...valid, issuer: 'https://other.test/realms/hpc' }), {});
    const messageOf = (key: string, changes: object) => errorsOf({ ...valid, ...changes })[`auth.oidc.0.${key}`] ?? '';
    assert.match(errorsOf(provider, provider)['auth.oidc.1.issuer'] ?? '', /listed twice/);
    assert.match(messageOf('issuer', { issuer: 'https://' }), /not a URL/);
    assert.match(messageOf('issuer', { issuer: 'https://idp.test/?x=1' }), /no query/);
    assert.match(messageOf('introspection', { clientSecret: undefined }), /needs clientId and clientSecret/);
    assert.match(messageOf('clientSecret', { clientId: undefined }), /needs clientId/);
    assert.match(messageOf('clockSkewSeconds', { clockSkewSeconds: 301 }), /<= 300/);
    assert.match(messageOf('roles.staff', { roles: { staff: 'root' } }), /auditor, operator, administrator/);
    assert.match(messageOf('roles', { claims: {} }), /needs claims.groups/);
    assert.match(messageOf('projects', { claims: {} }), /needs claims.groups/);
    assert.match(messageOf('projects.x', { projects: { x: 'hpc_nine/climate' } }), /no system hpc_nine/);
    assert.match(messageOf('projects.x', { projects: { x: 'climate' } }), /system\/project/);
    assert.match(messageOf('syncMemberships', { projects: {} }), /needs projects/);
    assert.match(messageOf('scopes', { scopes: 'profile' }), /openid/);
    assert.match(messageOf('userClaim', { userClaim: 'uid' }), /not a known key/);
  });

  test('accepts the examples of docs/identity.md', () => {
    const page = readFileSync(new URL('../../docs/identity.md', import.meta.url), 'utf8');
    const examples = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => parse(text));
    assert.ok(examples.length >= 2);
    for (const example of examples) assert.deepEqual(fieldErrors({ ...minimalConfig(), ...example }), {});
  });

  test('the secret of a client is not printed', () => {
    const oidc = [{ issuer: 'https://idp.test', audience: 'bursar', clientId: 'bursar', clientSecret: 'top-secret' }];
    const config = validateConfig({ ...minimalConfig(), auth: { oidc } }, 'test');
    for (const format of ['yaml', 'json'] as const) assert.doesNotMatch(formatConfig(config, format), /top-secret/);
  });

  test('returns a frozen copy and does not modify its input', () => {
    const input = minimalConfig();
    const config = validateConfig(input, 'test');
    assert.deepEqual(input, minimalConfig());
    const change = (target: object) => Reflect.set(target, 'port', 1);
    assert.ok(!change(config) && !change(config.server) && !change(config.systems.hpc_one ?? {}));
    assert.throws(() => config.systems.hpc_one?.projects.push({ name: 'x' } as never), TypeError);
  });

  test('rejects values that are not a configuration', () => {
    for (const value of [null, undefined, 7, 'x', [], true]) assert.notDeepEqual(fieldErrors(value), {}, String(value));
    assert.notDeepEqual(fieldErrors({}), {});
    assert.notDeepEqual(fieldErrors({ systems: {} }), {});
    assert.notDeepEqual(fieldErrors({ systems: { hpc_one: { kind: 'batch', projects: [] } } }), {});
  });

  test('throws no error other than invalid_config, whatever the input', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void fieldErrors(value)));
    fc.assert(
      fc.property(fc.jsonValue(), (value) => void fieldErrors({ ...minimalConfig(), server: value, log: value })),
    );
  });
});

describe('validateConfig: unknown keys', () => {
  test('are rejected with the most similar known key', () => {
    const cases: [object, string, string][] = [
      [{ sever: {} }, 'sever', 'server'],
      [{ server: { prot: 1 } }, 'server.prot', 'port'],
      [{ server: { Host: 'x' } }, 'server.Host', 'host'],
      [{ log: { levels: 'info' } }, 'log.levels', 'level'],
      [{ submissions: { maxBodyKB: 1 } }, 'submissions.maxBodyKB', 'maxBodyKb'],
    ];
    for (const [part, field, suggestion] of cases) {
      assert.match(
        fieldErrors({ ...minimalConfig(), ...part })[field] ?? '',
        new RegExp(`did you mean ${suggestion}\\?$`),
      );
    }
  });

  test('are rejected inside systems, projects and tools', () => {
    const system = { kind: 'batch', project: [], projects: [{ name: 'proj', grants: {} }], limits: { node: 1 } };
    const found = fieldErrors({ systems: { hpc_one: system } });
    assert.match(found['systems.hpc_one.project'] ?? '', /projects\?$/);
    assert.match(found['systems.hpc_one.projects.0.grants'] ?? '', /grant\?$/);
    assert.match(found['systems.hpc_one.limits.node'] ?? '', /nodes\?$/);
    assert.match(fieldErrors(configWithTool({ comand: [] }))['systems.hpc_two.tools.TOOL.comand'] ?? '', /command\?$/);
  });

  test('that are names of systems or tools are rejected with the required pattern', () => {
    for (const name of ['HPC_ONE', 'hpc-one', '1hpc', '', 'hpc one', 'h'.repeat(33)]) {
      const found = fieldErrors({ systems: { [name]: { kind: 'batch', projects: [{ name: 'proj' }] } } });
      assert.match(found[`systems.${name}`] ?? '', /must match \^\[a-z\]/, name);
    }
    const tools = { bash: { command: ['bash'] } };
    const found = fieldErrors({ systems: { hpc_two: { kind: 'tool', projects: [{ name: 'proj' }], tools } } });
    assert.match(found['systems.hpc_two.tools.bash'] ?? '', /must match/);
  });
});

describe('validateConfig: values', () => {
  test('of the wrong type or range are rejected with their path', () => {
    const cases: [object, string][] = [
      [{ server: { port: -1 } }, 'server.port'],
      [{ server: { port: 65_536 } }, 'server.port'],
      [{ server: { port: '8080' } }, 'server.port'],
      [{ server: { host: '' } }, 'server.host'],
      [{ data: '' }, 'data'],
      [{ submissions: { maxBodyKb: 0 } }, 'submissions.maxBodyKb'],
      [{ submissions: { maxRatio: 1.5 } }, 'submissions.maxRatio'],
      [{ database: { url: 'mysql:x' } }, 'database.url'],
    ];
    for (const [part, field] of cases) assert.ok(field in fieldErrors({ ...minimalConfig(), ...part }), field);
  });

  test('outside an enumeration are rejected with the allowed values', () => {
    assert.match(
      fieldErrors({ ...minimalConfig(), log: { level: 'loud' } })['log.level'] ?? '',
      /one of trace, debug, info/,
    );
    const system = { kind: 'cloud', projects: [{ name: 'proj' }], charge: 'hour' };
    const found = fieldErrors({ systems: { hpc_one: system } });
    assert.match(found['systems.hpc_one.kind'] ?? '', /one of batch, tool/);
    assert.match(found['systems.hpc_one.charge'] ?? '', /one of core, node, wall/);
  });

  test('are all reported in one error', () => {
    const found = fieldErrors({ ...minimalConfig(), sever: {}, data: '', log: { level: 'loud' } });
    assert.deepEqual(Object.keys(found).sort(), ['data', 'log.level', 'sever']);
  });
});

describe('validateConfig: inconsistent values', () => {
  const system = (part: object) => ({
    systems: { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }], ...part } },
  });

  test('rejects a non-loopback address with a local engine, unless the configuration allows it', () => {
    for (const host of ['0.0.0.0', '::', '192.168.0.1', 'example.com', '127.0.0.1.example.com', '128.0.0.1']) {
      const found = fieldErrors({ ...minimalConfig(), server: { host } });
      assert.match(found['systems.hpc_one.engine.acceptJobsFromTheNetwork'] ?? '', /must be true to listen on/, host);
      const allowed = { ...system({ engine: { acceptJobsFromTheNetwork: true } }), server: { host } };
      assert.deepEqual(fieldErrors(allowed), {}, host);
    }
    for (const host of ['127.0.0.1', '127.8.8.8', '::1', 'localhost']) {
      assert.deepEqual(fieldErrors({ ...minimalConfig(), server: { host } }), {}, host);
    }
  });

  test('rejects a project that is listed twice', () => {
    const found = fieldErrors(system({ projects: [{ name: 'a' }, { name: 'b' }, { name: 'a' }] }));
    assert.match(found['systems.hpc_one.projects'] ?? '', /a is listed twice/);
  });

  test('rejects a tool system without tools, and a batch system with tools', () => {
    assert.match(fieldErrors(system({ kind: 'tool' }))['systems.hpc_one.tools'] ?? '', /at least one tool/);
    const tools = { BASH: { command: ['bash'] } };
    assert.match(fieldErrors(system({ tools }))['systems.hpc_one.tools'] ?? '', /kind tool/);
  });

  test('rejects defaults that exceed the limits', () => {
    const found = fieldErrors(
      system({
        limits: { nodes: 1, coresPerNode: 1, runtimeHours: 0.1 },
        defaults: { nodes: 2, coresPerNode: 2, runtimeHours: 0.2 },
      }),
    );
    assert.deepEqual(Object.keys(found).sort(), [
      'systems.hpc_one.defaults.coresPerNode',
      'systems.hpc_one.defaults.nodes',
      'systems.hpc_one.defaults.runtimeHours',
    ]);
    // This also applies to the default runtime of the schema.
    assert.ok('systems.hpc_one.defaults.runtimeHours' in fieldErrors(system({ limits: { runtimeHours: 0.25 } })));
  });

  test('rejects a limit of files that a zip, its folders and the logs could exceed', () => {
    assert.equal(fieldErrors(system({ limits: { files: 40_000 } }))['systems.hpc_one.limits.files'], undefined);
    const found = fieldErrors(system({ limits: { files: 39_999 } }));
    assert.match(found['systems.hpc_one.limits.files'] ?? '', /submissions.maxEntries, which is 20000/);
  });

  test('rejects a command with an undeclared parameter', () => {
    const found = fieldErrors(configWithTool({ command: ['run', '--x={x}', '{y}'], parameters: { x: {} } }));
    assert.match(found['systems.hpc_two.tools.TOOL.command'] ?? '', /\{y\} is not a parameter/);
    assert.deepEqual(fieldErrors(configWithTool({ command: ['run', '{x}'], parameters: { x: {} } })), {});
    const inherited = fieldErrors(configWithTool({ command: ['run', '{constructor}'], parameters: {} }));
    assert.match(inherited['systems.hpc_two.tools.TOOL.command'] ?? '', /\{constructor\} is not a parameter/);
  });
});

describe('validateConfig: tool parameters', () => {
  const invalidFields = (parameter: object) =>
    Object.keys(fieldErrors(configWithTool({ parameters: { p: parameter } })));
  const parameterPath = /^systems\.hpc_two\.tools\.TOOL\.parameters\.p/;
  const assertRejected = (parameter: object) => {
    const found = invalidFields(parameter);
    assert.ok(
      found.some((field) => parameterPath.test(field)),
      `accepted: ${JSON.stringify(parameter)}`,
    );
  };

  test('accepts valid declarations', () => {
    for (const parameter of [
      {},
      { type: 'string', pattern: '[a-z]+', default: 'x' },
      { type: 'string', values: ['a', 'b'], default: 'a' },
      { type: 'integer', min: 1, max: 3, default: 2 },
      { type: 'number', default: '0.5' },
      { type: 'words', default: '-v "two words"', pattern: '[-a-z ]+', allowOptions: true },
      { type: 'string', values: ['-O2', '-O3'], default: '-O2', allowOptions: true },
    ]) {
      assert.deepEqual(invalidFields(parameter), [], JSON.stringify(parameter));
    }
  });

  test('rejects a pattern that is not a regular expression', () => {
    for (const pattern of ['(', '[', '*', '\\', '(?<n', '\\p{Nonsense}', 'a{2,1}']) assertRejected({ pattern });
  });

  test('rejects a default that would not be accepted in a Payload', () => {
    assertRejected({ type: 'integer', default: 'many' });
    assertRejected({ type: 'number', default: 'many' });
    assertRejected({ type: 'integer', default: 1.5 });
    assertRejected({ type: 'integer', min: 1, default: 0 });
    assertRejected({ type: 'number', max: 1, default: 2 });
    assertRejected({ values: ['a'], default: 'b' });
    assertRejected({ pattern: '[a-z]+', default: 'B' });
    assertRejected({ type: 'words', default: 'an "open quote' });
  });

  test('rejects defaults and values that begin with "-", unless the declaration allows it', () => {
    assertRejected({ default: '-v' });
    assertRejected({ type: 'words', default: 'a -v' });
    assertRejected({ values: ['fast', '-O2'] });
  });

  test('rejects words that are not an argument by themselves', () => {
    const parameters = { p: { type: 'words' } };
    const commandErrors = (command: string[]) => fieldErrors(configWithTool({ command, parameters }));
    assert.deepEqual(commandErrors(['run', '{p}', 'x']), {});
    for (const command of [['{p}'], ['run', '--p={p}'], ['run', '{p}{p}']]) {
      assert.match(commandErrors(command)['systems.hpc_two.tools.TOOL.command'] ?? '', /argument by itself/);
    }
  });

  test('rejects a minimum above the maximum', () => {
    assertRejected({ type: 'integer', min: 3, max: 2 });
  });

  test('rejects the names of common Payload fields', () => {
    for (const name of ['title', 'runtime', 'node_number', 'core_number', 'tool', 'command']) {
      const found = Object.keys(fieldErrors(configWithTool({ parameters: { [name]: {} } })));
      assert.ok(found.length > 0, `accepted: ${name}`);
    }
  });
});

test('validateConfig rejects webhook networks and name servers that are not addresses', () => {
  const invalidFields = (webhooks: object) => Object.keys(fieldErrors({ ...minimalConfig(), webhooks }));
  assert.deepEqual(
    invalidFields({
      ...{ allowNetworks: ['10.0.0.0/8', 'fd00::/8'], denyNetworks: ['192.0.2.0/24'], allowPorts: [443] },
      nameServers: ['1.1.1.1', '[::1]:53'],
    }),
    [],
  );
  assert.deepEqual(invalidFields({ allowPorts: [70_000] }), ['webhooks.allowPorts.0']);
  for (const network of ['10.0.0.1', '10.0.0.0/33', 'example.org', '', '::/129']) {
    assert.deepEqual(invalidFields({ allowNetworks: [network] }), ['webhooks.allowNetworks'], network);
    assert.deepEqual(invalidFields({ denyNetworks: [network] }), ['webhooks.denyNetworks'], network);
  }
  for (const server of ['dns.example.org', '1.1.1.1:x', '']) {
    assert.deepEqual(invalidFields({ nameServers: [server] }), ['webhooks.nameServers'], server);
  }
});

test('validateConfig rejects proxies that are no addresses, and the network of all addresses', () => {
  const invalidFields = (trustProxy: string[]) =>
    Object.keys(fieldErrors({ ...minimalConfig(), server: { trustProxy } }));
  assert.deepEqual(invalidFields(['127.0.0.1', '10.0.0.0/8', '::1', 'fd00::/8']), []);
  for (const proxy of ['proxy.example.org', 'loopback', '', '10.0.0.0/33', '0.0.0.0/0', '::/0'])
    assert.deepEqual(invalidFields([proxy]), ['server.trustProxy'], proxy);
});

test('validateConfig rejects an address for browsers with a path, or without TLS beyond this host', () => {
  const invalidFields = (publicUrl: string) => Object.keys(fieldErrors({ ...minimalConfig(), server: { publicUrl } }));
  for (const url of [
    'https://bursar.example.org',
    'https://bursar.example.org:8443/',
    'http://localhost:8080',
    'http://[::1]',
  ])
    assert.deepEqual(invalidFields(url), [], url);
  const others = [
    'http://bursar.example.org',
    'https://example.org/bursar/',
    'bursar.example.org',
    'https://a@b',
    'https://a:x',
  ];
  for (const url of others) assert.deepEqual(invalidFields(url), ['server.publicUrl'], url);
});

test('validateConfig returns the type of the schema', () => {
  const config: Config = validateConfig(minimalConfig(), 'test');
  assert.equal(config.systems.hpc_one?.kind, 'batch');
});

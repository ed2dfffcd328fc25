import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configWithTool, fieldErrors, minimalConfig } from './validation-errors.ts';

describe('validateConfig: values', () => {
  test('of the wrong type or range are rejected with their path', () => {
    const cases: [object, string][] = [
      [{ server: { port: -1 } }, 'server.port'],
      [{ server: { port: 65_536 } }, 'server.port'],
      [{ server: { port: '8080' } }, 'server.port'],
      [{ server: { host: '' } }, 'server.host'],
      [{ data: '' }, 'data'],
      [{ submissions: { maxBodyKb: 0 } }, 'submissions.maxBodyKb'],
      [{ submissions: { maxEntries: 1.5 } }, 'submissions.maxEntries'],
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

  test('rejects a default runtime that exceeds the limit', () => {
    const found = fieldErrors(system({ limits: { runtimeHours: 0.1 }, defaultRuntimeHours: 0.2 }));
    assert.deepEqual(Object.keys(found), ['systems.hpc_one.defaultRuntimeHours']);
    // This also applies to the default of the schema.
    assert.ok('systems.hpc_one.defaultRuntimeHours' in fieldErrors(system({ limits: { runtimeHours: 0.25 } })));
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

test('validateConfig rejects webhook networks that are not addresses', () => {
  const invalidFields = (webhooks: object) => Object.keys(fieldErrors({ ...minimalConfig(), webhooks }));
  assert.deepEqual(
    invalidFields({ allowNetworks: ['10.0.0.0/8', 'fd00::/8'], denyNetworks: ['192.0.2.0/24'], allowPorts: [443] }),
    [],
  );
  assert.deepEqual(invalidFields({ allowPorts: [70_000] }), ['webhooks.allowPorts.0']);
  for (const network of ['10.0.0.1', '10.0.0.0/33', 'example.org', '', '::/129']) {
    assert.deepEqual(invalidFields({ allowNetworks: [network] }), ['webhooks.allowNetworks'], network);
    assert.deepEqual(invalidFields({ denyNetworks: [network] }), ['webhooks.denyNetworks'], network);
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

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import type { Config } from '../../src/config/schema.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { BursarError } from '../../src/domain/errors.ts';
import { shippedConfig } from '../support/shipped-config.ts';

/** The smallest configuration there is. */
const smallest = () => ({ systems: { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }] } } });

/** A tool system whose one tool is like this. */
function withTool(tool: object) {
  const system = { kind: 'tool', projects: [{ name: 'proj' }], tools: { TOOL: { command: ['run'], ...tool } } };
  return { systems: { hpc_two: system } };
}

/** What is wrong with a configuration: the message of each field. */
function faults(config: unknown): Record<string, string> {
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

describe('a configuration', () => {
  test('as it is shipped is valid', () => {
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

  test('is completed with defaults, and those are good enough', () => {
    const config = validateConfig(smallest(), 'test');
    assert.deepEqual(config.server, { host: '127.0.0.1', port: 8080, requestTimeoutSeconds: 3600, drainSeconds: 20 });
    const system = config.systems.hpc_one;
    assert.deepEqual(system?.limits, { nodes: 64, coresPerNode: 128, runtimeHours: 48 });
    assert.deepEqual(system?.projects, [
      { name: 'proj', autoJoin: true, grant: { timeSeconds: 18_000_000, spaceKb: 10_000_000 } },
    ]);
    assert.deepEqual(validateConfig(structuredClone(config), 'again'), config);
  });

  test('is frozen, and what was given is not touched', () => {
    const given = smallest();
    const config = validateConfig(given, 'test');
    assert.deepEqual(given, smallest());
    const change = (where: object) => Reflect.set(where, 'port', 1);
    assert.ok(!change(config) && !change(config.server) && !change(config.systems.hpc_one ?? {}));
    assert.throws(() => config.systems.hpc_one?.projects.push({ name: 'x' } as never), TypeError);
  });

  test('that is nothing of the kind is refused', () => {
    for (const value of [null, undefined, 7, 'x', [], true]) assert.notDeepEqual(faults(value), {}, String(value));
    assert.notDeepEqual(faults({}), {});
    assert.notDeepEqual(faults({ systems: {} }), {});
    assert.notDeepEqual(faults({ systems: { hpc_one: { kind: 'batch', projects: [] } } }), {});
  });

  test('never fails otherwise than by a refusal', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void faults(value)));
    fc.assert(fc.property(fc.jsonValue(), (value) => void faults({ ...smallest(), server: value, log: value })));
  });
});

describe('an unknown key', () => {
  test('is refused with the nearest known one', () => {
    const cases: [object, string, string][] = [
      [{ sever: {} }, 'sever', 'server'],
      [{ server: { prot: 1 } }, 'server.prot', 'port'],
      [{ server: { Host: 'x' } }, 'server.Host', 'host'],
      [{ log: { levels: 'info' } }, 'log.levels', 'level'],
      [{ submissions: { maxBodyKB: 1 } }, 'submissions.maxBodyKB', 'maxBodyKb'],
    ];
    for (const [part, field, nearest] of cases) {
      assert.match(faults({ ...smallest(), ...part })[field] ?? '', new RegExp(`nearest known one is ${nearest}$`));
    }
  });

  test('is refused inside of systems, projects and tools', () => {
    const system = { kind: 'batch', project: [], projects: [{ name: 'proj', grants: {} }], limits: { node: 1 } };
    const found = faults({ systems: { hpc_one: system } });
    assert.match(found['systems.hpc_one.project'] ?? '', /projects$/);
    assert.match(found['systems.hpc_one.projects.0.grants'] ?? '', /grant$/);
    assert.match(found['systems.hpc_one.limits.node'] ?? '', /nodes$/);
    assert.match(faults(withTool({ comand: [] }))['systems.hpc_two.tools.TOOL.comand'] ?? '', /command$/);
  });

  test('that is a name is refused with what names look like', () => {
    for (const name of ['HPC_ONE', 'hpc-one', '1hpc', '', 'hpc one', 'h'.repeat(33)]) {
      const found = faults({ systems: { [name]: { kind: 'batch', projects: [{ name: 'proj' }] } } });
      assert.match(found[`systems.${name}`] ?? '', /must match \^\[a-z\]/, name);
    }
    const tools = { bash: { command: ['bash'] } };
    const found = faults({ systems: { hpc_two: { kind: 'tool', projects: [{ name: 'proj' }], tools } } });
    assert.match(found['systems.hpc_two.tools.bash'] ?? '', /must match/);
  });
});

describe('a value', () => {
  test('of the wrong kind is refused by its place', () => {
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
    for (const [part, field] of cases) assert.ok(field in faults({ ...smallest(), ...part }), field);
  });

  test('out of a list is refused with the list', () => {
    assert.match(faults({ ...smallest(), log: { level: 'loud' } })['log.level'] ?? '', /one of trace, debug, info/);
    const system = { kind: 'cloud', projects: [{ name: 'proj' }], charge: 'hour' };
    const found = faults({ systems: { hpc_one: system } });
    assert.match(found['systems.hpc_one.kind'] ?? '', /one of batch, tool/);
    assert.match(found['systems.hpc_one.charge'] ?? '', /one of core, node, wall/);
  });

  test('and everything else that is wrong is told at once', () => {
    const found = faults({ ...smallest(), sever: {}, data: '', log: { level: 'loud' } });
    assert.deepEqual(Object.keys(found).sort(), ['data', 'log.level', 'sever']);
  });
});

describe('values that do not go together', () => {
  const system = (part: object) => ({
    systems: { hpc_one: { kind: 'batch', projects: [{ name: 'proj' }], ...part } },
  });

  test('an address of the network, and an engine that runs the code of its callers here', () => {
    for (const host of ['0.0.0.0', '::', '192.168.0.1', 'example.com', '127.0.0.1.example.com', '128.0.0.1']) {
      const found = faults({ ...smallest(), server: { host } });
      assert.match(found['systems.hpc_one.engine.acceptJobsFromTheNetwork'] ?? '', /must be true to listen on/, host);
      const meant = { ...system({ engine: { acceptJobsFromTheNetwork: true } }), server: { host } };
      assert.deepEqual(faults(meant), {}, host);
    }
    for (const host of ['127.0.0.1', '127.8.8.8', '::1', 'localhost']) {
      assert.deepEqual(faults({ ...smallest(), server: { host } }), {}, host);
    }
  });

  test('a project that is listed twice', () => {
    const found = faults(system({ projects: [{ name: 'a' }, { name: 'b' }, { name: 'a' }] }));
    assert.match(found['systems.hpc_one.projects'] ?? '', /a is listed twice/);
  });

  test('a tool system without tools, and a batch system with them', () => {
    assert.match(faults(system({ kind: 'tool' }))['systems.hpc_one.tools'] ?? '', /at least one tool/);
    const tools = { BASH: { command: ['bash'] } };
    assert.match(faults(system({ tools }))['systems.hpc_one.tools'] ?? '', /kind tool/);
  });

  test('defaults over the limits', () => {
    const found = faults(
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
    // The default runtime that comes with the schema counts as well.
    assert.ok('systems.hpc_one.defaults.runtimeHours' in faults(system({ limits: { runtimeHours: 0.25 } })));
  });

  test('a command with a parameter that the tool does not have', () => {
    const found = faults(withTool({ command: ['run', '--x={x}', '{y}'], parameters: { x: {} } }));
    assert.match(found['systems.hpc_two.tools.TOOL.command'] ?? '', /\{y\} is not a parameter/);
    assert.deepEqual(faults(withTool({ command: ['run', '{x}'], parameters: { x: {} } })), {});
  });
});

describe('a parameter of a tool', () => {
  const faultsOf = (parameter: object) => Object.keys(faults(withTool({ parameters: { p: parameter } })));
  const at = /^systems\.hpc_two\.tools\.TOOL\.parameters\.p/;
  const assertRefused = (parameter: object) => {
    const found = faultsOf(parameter);
    assert.ok(
      found.some((field) => at.test(field)),
      `accepted: ${JSON.stringify(parameter)}`,
    );
  };

  test('with sense is accepted', () => {
    for (const parameter of [
      {},
      { type: 'string', pattern: '[a-z]+', default: 'x' },
      { type: 'string', values: ['a', 'b'], default: 'a' },
      { type: 'integer', min: 1, max: 3, default: 2 },
      { type: 'number', default: '0.5' },
    ]) {
      assert.deepEqual(faultsOf(parameter), [], JSON.stringify(parameter));
    }
  });

  test('with a pattern that is no regular expression is refused', () => {
    for (const pattern of ['(', '[', '*', '\\', '(?<n', '\\p{Nonsense}', 'a{2,1}']) assertRefused({ pattern });
  });

  test('with a default that it would not accept from a caller is refused', () => {
    assertRefused({ type: 'integer', default: 'many' });
    assertRefused({ type: 'number', default: 'many' });
    assertRefused({ type: 'integer', default: 1.5 });
    assertRefused({ type: 'integer', min: 1, default: 0 });
    assertRefused({ type: 'number', max: 1, default: 2 });
    assertRefused({ values: ['a'], default: 'b' });
    assertRefused({ pattern: '[a-z]+', default: 'B' });
  });

  test('with bounds that leave nothing between them is refused', () => {
    assertRefused({ type: 'integer', min: 3, max: 2 });
  });

  test('with the name of a field that every Payload has is refused', () => {
    for (const name of ['title', 'runtime', 'node_number', 'core_number', 'tool', 'command']) {
      const found = Object.keys(faults(withTool({ parameters: { [name]: {} } })));
      assert.ok(found.length > 0, `accepted: ${name}`);
    }
  });
});

test('webhooks are told networks and name servers by their addresses', () => {
  const faultsOf = (webhooks: object) => Object.keys(faults({ ...smallest(), webhooks }));
  assert.deepEqual(faultsOf({ allowNetworks: ['10.0.0.0/8', 'fd00::/8'], nameServers: ['1.1.1.1', '[::1]:53'] }), []);
  for (const network of ['10.0.0.1', '10.0.0.0/33', 'example.org', '', '::/129']) {
    assert.deepEqual(faultsOf({ allowNetworks: [network] }), ['webhooks.allowNetworks'], network);
  }
  for (const server of ['dns.example.org', '1.1.1.1:x', '']) {
    assert.deepEqual(faultsOf({ nameServers: [server] }), ['webhooks.nameServers'], server);
  }
});

test('the type of a checked configuration is the type of the schema', () => {
  const config: Config = validateConfig(smallest(), 'test');
  assert.equal(config.systems.hpc_one?.kind, 'batch');
});

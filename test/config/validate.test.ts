import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import { formatConfig } from '../../src/config/format.ts';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import type { Config } from '../../src/config/schema.ts';
import { validateConfig } from '../../src/config/validate.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { configWithTool, fieldErrors, minimalConfig } from './validation-errors.ts';

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
    assert.equal(systems.get('hpc_two')?.jobIdPrefix, 'BURSAR-JOB');
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
      /with engine.kind local there is no scheduler whose commands/,
    );
    for (const isolation of ['auto', 'none']) {
      const message = errorsOf({ isolation, network: false })['systems.hpc_one.network'];
      assert.match(message ?? '', /only with isolation: bubblewrap/);
    }
    for (const path of ['/', '/proc', '/run/munge', '/var', '/dev/shm', '/tmp/x', '/opt/../etc', '/opt/', '//opt'])
      assert.match(errorsOf({ readOnly: [path] })['systems.hpc_one.readOnly'] ?? '', /such as \/opt|write it/, path);
    assert.match(errorsOf({ isolation: 'docker' })['systems.hpc_one.isolation'] ?? '', /auto, bubblewrap, none/);
  });

  test('checks the scheduler options of a project by the engine of its system', () => {
    const errorsOf = (engine: object, site: object) => {
      const config = minimalConfig();
      Object.assign(config.systems.hpc_one, { engine, projects: [{ name: 'proj', site }] });
      return fieldErrors(config);
    };
    const path = 'systems.hpc_one.projects.0.site';
    assert.deepEqual(errorsOf({ kind: 'slurm' }, { partition: 'long' }), {});
    assert.match(
      errorsOf({ kind: 'slurm' }, { partitoin: 'long' })[`${path}.partitoin`] ?? '',
      /did you mean partition/,
    );
    assert.match(errorsOf({ kind: 'local' }, { partition: 'long' })[path] ?? '', /is not a known key/);
  });

  test('checks the keys of OpenID providers', () => {
    const provider = { issuer: 'https://idp.test', audience: 'bursar' };
    const errorsOf = (...oidc: object[]) => fieldErrors({ ...minimalConfig(), oidc });
    const valid = {
      ...provider,
      clientId: 'bursar',
      clientSecret: 'secret',
      introspection: true,
      claims: { user: 'uid', groups: 'realm_access.roles' },
      roles: { staff: 'operator' },
      projects: { '/climate': 'hpc_one/climate', leads: { project: 'hpc_one/climate', role: 'manager' } },
      syncMemberships: true,
    };
    assert.deepEqual(errorsOf(provider, { ...valid, issuer: 'https://other.test/realms/hpc' }), {});
    const messageOf = (key: string, changes: object) => errorsOf({ ...valid, ...changes })[`oidc.0.${key}`] ?? '';
    assert.match(errorsOf(provider, provider)['oidc.1.issuer'] ?? '', /listed twice/);
    assert.match(messageOf('issuer', { issuer: 'https://' }), /not a URL/);
    assert.match(messageOf('issuer', { issuer: 'https://idp.test/?x=1' }), /no query/);
    assert.match(messageOf('introspection', { clientSecret: undefined }), /needs clientId and clientSecret/);
    assert.match(messageOf('clientSecret', { clientId: undefined }), /needs clientId/);
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
    const config = validateConfig({ ...minimalConfig(), oidc }, 'test');
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

test('validateConfig returns the type of the schema', () => {
  const config: Config = validateConfig(minimalConfig(), 'test');
  assert.equal(config.systems.hpc_one?.kind, 'batch');
});

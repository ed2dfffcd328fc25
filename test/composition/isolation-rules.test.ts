import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { findIsolationRefusals, type StartToCheck, type SystemToCheck } from '../../src/composition/isolation-rules.ts';
import { validateConfig } from '../../src/config/validate.ts';
import type { Isolation } from '../../src/domain/systems/isolation.ts';

const none: Isolation = { kind: 'none', reason: 'a test' };
const dataFolder = '/srv/bursar/data';

function system(
  name: string,
  keys: object,
  isolation: Isolation = none,
  workspaceFolder = '/scratch/work',
): SystemToCheck {
  const config = { systems: { [name]: { kind: 'batch', projects: [{ name: 'proj' }], ...keys } } };
  const settings = validateConfig(config, 'test').systems[name];
  assert.ok(settings);
  return { name, settings, inEffect: isolation, workspaceFolder };
}

const local = (keys: object = {}, ...rest: [Isolation?, string?]) => system('hpc_one', keys, ...rest);
const ssh = () => system('hpc_two', { engine: { kind: 'slurm', ssh: { host: 'login' }, workspaceFolder: '/scratch' } });

const shippedStart = { dataFolder, host: '127.0.0.1', isShippedConfig: true, isRoot: false };

/** The refused fields, after a check that each message says what to do. */
function refusedFields(start: Partial<StartToCheck> & Pick<StartToCheck, 'systems'>): string[] {
  const refusals = findIsolationRefusals({ ...shippedStart, isShippedConfig: false, ...start });
  for (const { message } of refusals) {
    assert.match(message, /Or isolate jobs: (Set isolation: \S+ .*)?Install bubblewrap \(apt-get install bubblewrap/);
    assert.match(message, /Set it to|Run the two systems/);
  }
  return refusals.map(({ field }) => field.replace('systems.', ''));
}

test('refusals say which settings isolate jobs', () => {
  const adviceFor = (keys: object) => {
    const systems = [local(keys, none, dataFolder)];
    const [refusal] = findIsolationRefusals({
      systems,
      dataFolder,
      host: '127.0.0.1',
      isShippedConfig: false,
      isRoot: false,
    });
    return /Or isolate jobs: (.*?) \(apt-get/.exec(refusal?.message ?? '')?.[1];
  };
  const engine = { kind: 'slurm' };
  assert.equal(adviceFor({ isolation: 'auto' }), 'Install bubblewrap');
  assert.equal(adviceFor({ isolation: 'none' }), 'Set isolation: bubblewrap. Install bubblewrap');
  // On Slurm, auto never counts as isolated.
  assert.equal(adviceFor({ isolation: 'auto', engine }), 'Set isolation: bubblewrap. Install bubblewrap');
  const expected = 'Set isolation: bubblewrap and scheduler: false. Install bubblewrap';
  assert.equal(adviceFor({ isolation: 'bubblewrap', scheduler: true, engine }), expected);
});

describe('findIsolationRefusals', () => {
  const inside = `${dataFolder}/workspaces`;
  const [runAs, folder] = ['hpc_one.engine.runAs', 'hpc_one.engine.workspaceFolder'];

  test('root is refused for the local engine, unless jobs are isolated or have an account', () => {
    const isolation = 'none';
    assert.deepEqual(refusedFields({ systems: [local({ isolation })], isRoot: true }), [runAs]);
    assert.deepEqual(refusedFields({ systems: [local({ isolation })], isRoot: false }), []);
    assert.deepEqual(refusedFields({ systems: [local({}, { kind: 'bubblewrap' })], isRoot: true }), []);
    const engine = { kind: 'local', runAs: 'jobs' };
    assert.deepEqual(refusedFields({ systems: [local({ isolation, engine })], isRoot: true }), []);
  });

  for (const [name, workspaceFolder, expected] of [
    ['workspaces inside the data folder', inside, [folder]],
    ['a data folder inside the workspaces', '/srv', [folder]],
    ['one folder for both', dataFolder, [folder]],
    ['a folder with a similar name', `${dataFolder}2`, []],
  ] as const) {
    test(`without isolation: ${name}`, () => {
      assert.deepEqual(refusedFields({ systems: [local({ isolation: 'none' }, none, workspaceFolder)] }), expected);
      assert.deepEqual(refusedFields({ systems: [local({}, { kind: 'bubblewrap' }, workspaceFolder)] }), []);
      const slurm = { isolation: 'none', engine: { kind: 'slurm' } };
      assert.deepEqual(refusedFields({ systems: [local(slurm, none, workspaceFolder)] }), expected);
    });
  }

  test('a new installation without bubblewrap starts on loopback, also as root, and nowhere else', () => {
    const engine = { kind: 'local', acceptJobsFromTheNetwork: true };
    const systems = [local({ engine }, none, inside)];
    const start = { systems, isShippedConfig: true, isRoot: true };
    for (const host of ['127.0.0.1', 'localhost', '::1']) {
      assert.deepEqual(refusedFields({ ...start, host }), []);
      assert.deepEqual(refusedFields({ ...start, host, isShippedConfig: false }), [runAs, folder], 'behind a proxy');
    }
    assert.deepEqual(refusedFields({ ...start, host: '0.0.0.0' }), [runAs, folder]);
  });

  test('a local system beside one over ssh is refused, unless its jobs are isolated or have an account', () => {
    assert.deepEqual(refusedFields({ systems: [local(), ssh()] }), ['hpc_one']);
    assert.deepEqual(refusedFields({ systems: [local({}, { kind: 'bubblewrap' }), ssh()] }), []);
    const engine = { kind: 'local', runAs: 'jobs' };
    assert.deepEqual(refusedFields({ systems: [local({ engine }), ssh()], isRoot: true }), []);
  });

  test('a Slurm system without ssh beside one over ssh is refused, unless its jobs are isolated', () => {
    const slurm = { engine: { kind: 'slurm' } };
    assert.deepEqual(refusedFields({ systems: [local(slurm), ssh()] }), ['hpc_one']);
    assert.deepEqual(refusedFields({ systems: [local(slurm, { kind: 'bubblewrap' }), ssh()] }), []);
    const [refusal] = findIsolationRefusals({ ...shippedStart, systems: [local(slurm), ssh()] });
    assert.doesNotMatch(refusal?.message ?? '', /runAs/, 'Slurm has no such setting');
  });
});

import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { findExposedConfigFile, resolveIsolation } from '../../../src/composition/isolation.ts';
import { validateConfig } from '../../../src/config/validate.ts';
import type { BatchIsolation } from '../../../src/engines/batch/backend.ts';
import type { LocalSandbox } from '../../../src/engines/local/sandbox.ts';
import { localSandbox } from '../../support/bubblewrap.ts';

/** Returns the hidden paths and the exposed configuration file, if this file is the configuration. */
function resolveWith(configFile: string, readOnly: string[] = []) {
  assert.ok(localSandbox().program);
  const { BURSAR_CONFIG: before } = process.env;
  process.env.BURSAR_CONFIG = configFile;
  try {
    const system = { kind: 'batch', isolation: 'bubblewrap', readOnly, projects: [{ name: 'proj' }] };
    const config = validateConfig({ systems: { hpc_one: system }, data: '/nowhere/data' }, 'test');
    const isolations = resolveIsolation(config);
    const sandbox = isolations.get('hpc_one')?.sandbox as LocalSandbox | undefined;
    const hidden = sandbox?.hidden ?? [];
    return { hidden, exposed: findExposedConfigFile(config, isolations) };
  } finally {
    if (before === undefined) delete process.env.BURSAR_CONFIG;
    else process.env.BURSAR_CONFIG = before;
  }
}

test('the folder of the configuration is hidden, because a file that is replaced does not stay hidden', () => {
  for (const [file, readOnly] of [
    ['/etc/bursar/bursar.yaml', []],
    ['/srv/bursar/bursar.yaml', ['/srv']],
    ['/var/lib/bursar/bursar.yaml', []],
  ] as const) {
    const { hidden, exposed } = resolveWith(file, [...readOnly]);
    assert.ok(hidden.includes(file.replace('/bursar.yaml', '')), file);
    assert.equal(exposed, null, file);
  }
});

test('a folder with other files that jobs need is not hidden, and the configuration counts as exposed', () => {
  for (const [file, readOnly] of [
    ['/etc/bursar.yaml', []],
    ['/usr/local/bursar.yaml', []],
    ['/srv/software/bursar.yaml', ['/srv/software']],
  ] as const) {
    const { hidden, exposed } = resolveWith(file, [...readOnly]);
    assert.ok(hidden.includes(file) && !hidden.includes(file.replace('/bursar.yaml', '')), file);
    assert.equal(exposed, file);
  }
  assert.equal(resolveWith('/srv/bursar.yaml').exposed, null, 'jobs do not see /srv');
});

test('the key of TLS and the files that the configuration refers to are hidden with their folder', () => {
  assert.ok(localSandbox().program);
  const files = ['/srv/keys/database', '/etc/database-key'];
  const references = { byPath: new Map(), byValue: new Map(), files };
  const system = { kind: 'batch', isolation: 'bubblewrap', readOnly: ['/srv'], projects: [{ name: 'proj' }] };
  const server = { tls: { certificate: '/srv/tls/cert.pem', key: '/srv/tls/key.pem' } };
  const config = validateConfig({ server, systems: { hpc_one: system }, data: '/nowhere/data' }, 'test', references);
  const sandbox = resolveIsolation(config).get('hpc_one')?.sandbox as LocalSandbox | undefined;
  const hidden = sandbox?.hidden ?? [];
  for (const path of ['/srv/keys', '/etc/database-key', '/srv/tls']) assert.ok(hidden.includes(path), path);
  assert.ok(!hidden.includes('/etc'));
});

test('systems of one cluster hide the workspaces of each other', () => {
  const system = (workspaceFolder: string, host: string) => ({
    kind: 'batch',
    isolation: 'bubblewrap',
    readOnly: ['/work'],
    engine: { kind: 'slurm', ssh: { host }, workspaceFolder },
    projects: [{ name: basename(workspaceFolder) }],
  });
  // Two names of one host.
  const systems = { hpc_one: system('/work/one', 'login1'), hpc_two: system('/work/two', 'login2') };
  const isolations = resolveIsolation(validateConfig({ systems }, 'test'));
  const folders = ['/work/one', '/work/two'].map((path) => ({ path, kind: 'folder' }));
  for (const name of ['hpc_one', 'hpc_two']) {
    const sandbox = isolations.get(name)?.sandbox as BatchIsolation | undefined;
    assert.deepEqual(sandbox?.hidden, folders);
  }
});

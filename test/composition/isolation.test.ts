import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { resolveIsolation } from '../../src/composition/isolation.ts';
import { validateConfig } from '../../src/config/validate.ts';

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
  for (const name of ['hpc_one', 'hpc_two']) assert.deepEqual(isolations.get(name)?.slurm?.hidden, folders);
});

import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRunCommand } from '../../../src/engines/batch/run-command.ts';
import { slurmVariables } from '../../../src/engines/slurm/scheduler.ts';
import { defaultPath } from '../../../src/shell/base-environment.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { temporaryFolder } from '../../files/temporary.ts';
import { neverAborted } from '../observing.ts';

/** Programs with the names of Slurm commands, which print their environments. */
async function createPrograms(folder: string): Promise<string> {
  const programs = join(folder, 'bin');
  await mkdir(programs);
  for (const name of ['sbatch', 'squeue']) await writeFile(join(programs, name), '#!/bin/sh\nenv\n', { mode: 0o755 });
  return `${programs}:${defaultPath}`;
}

async function printEnvironment(program: string, environment: Record<string, string>) {
  const shell = createLocalShell({ environment });
  const configuredVariables = ['SITE'];
  const options = { shell, commandTimeoutMs: 60_000, onCommand: () => undefined, configuredVariables };
  const run = createRunCommand(options, slurmVariables);
  const { stdout, stderr } = await run({ argv: [program] }, neverAborted);
  await shell.close();
  assert.equal(stderr, '');
  const lines = stdout.trim().split('\n');
  // These are set by bash and sh themselves.
  return lines.filter((line) => !/^(PWD|OLDPWD|SHLVL|_|BASH_ENV)=/.test(line)).toSorted();
}

test('commands run with `set -u` in the start-up file of the account, with and without SLURM_CONF', async (t) => {
  const folder = await temporaryFolder(t);
  const startUpFile = join(folder, 'start-up');
  await writeFile(startUpFile, 'set -u\n');
  const environment = { PATH: await createPrograms(folder), BASH_ENV: startUpFile };
  for (const program of ['sbatch', 'squeue']) {
    const withConf = await printEnvironment(program, { ...environment, SLURM_CONF: '/etc/slurm/other.conf' });
    assert.ok(withConf.includes('SLURM_CONF=/etc/slurm/other.conf'), withConf.join('\n'));
    const without = await printEnvironment(program, environment);
    assert.ok(!without.some((line) => line.startsWith('SLURM_CONF=')), without.join('\n'));
  }
});

test('commands have the same environment with and without a start-up file that changes nothing', async (t) => {
  const folder = await temporaryFolder(t);
  const startUpFile = join(folder, 'start-up');
  await writeFile(startUpFile, '');
  const environment = {
    PATH: await createPrograms(folder),
    SLURM_CONF: '/etc/slurm/other.conf',
    SBATCH_PARTITION: 'hidden',
    SLURM_CLUSTERS: 'other',
    SITE: 'configured',
    OTHER: 'kept for queries',
  };
  for (const program of ['sbatch', 'squeue']) {
    const direct = await printEnvironment(program, environment);
    assert.deepEqual(direct, await printEnvironment(program, { ...environment, BASH_ENV: startUpFile }), program);
    assert.ok(!direct.some((line) => line.includes('PARTITION') || line.includes('CLUSTERS')), direct.join('\n'));
    assert.equal(direct.includes('OTHER=kept for queries'), program === 'squeue');
  }
});

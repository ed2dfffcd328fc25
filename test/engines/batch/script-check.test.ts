import assert from 'node:assert/strict';
import { mkdir, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRunCommand } from '../../../src/engines/batch/run-command.ts';
import { checkLocalScript, requireRunnableScript, scriptCheck } from '../../../src/engines/batch/script-check.ts';
import { slurmVariables } from '../../../src/engines/slurm/scheduler.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { temporaryFolder } from '../../files/temporary.ts';

test('a command runs only if its script can run, on this host and on another one, with and without start-up files', async (t) => {
  const folder = await temporaryFolder(t);
  const directory = join(folder, 'job');
  await mkdir(join(directory, 'sub'), { recursive: true });
  const valid = '#!/bin/bash\necho ran\n';
  await writeFile(join(folder, 'outside.sh'), valid);
  for (const name of ['run.sh', 'sub/run.sh', "it's $HOME.sh"]) await writeFile(join(directory, name), valid);
  await writeFile(join(directory, 'one-line.sh'), '#!/bin/bash');
  await writeFile(join(directory, 'no-interpreter.sh'), 'echo ran\n');
  await writeFile(join(directory, 'blank.sh'), '#!  \n');
  await writeFile(join(directory, 'windows.sh'), '#!/bin/bash\r\necho ran\r\n');
  await writeFile(join(directory, 'empty.sh'), '');
  // Reading all of it would take longer than a command may.
  await writeFile(join(directory, 'zeros.sh'), '');
  await truncate(join(directory, 'zeros.sh'), 100e9);
  await writeFile(join(folder, 'start-up'), 'set -eu\nprintf noise\n');
  await symlink('sub', join(directory, 'link'));
  await symlink('../outside.sh', join(directory, 'link.sh'));
  await symlink('..', join(directory, 'up'));
  await symlink('missing', join(directory, 'broken.sh'));
  const expected: Record<string, RegExp | null> = {
    'run.sh': null,
    './sub/run.sh': null,
    "it's $HOME.sh": null,
    'one-line.sh': null,
    'link/run.sh': null,
    'sub/../run.sh': null,
    'no-interpreter.sh': /does not name its interpreter/,
    'empty.sh': /does not name its interpreter/,
    'zeros.sh': /does not name its interpreter/,
    'blank.sh': /names no interpreter/,
    'windows.sh': /Windows line endings/,
    'missing.sh': /missing\.sh/,
    'broken.sh': /broken\.sh/,
    sub: /sub/,
    'link.sh': /outside/,
    'up/outside.sh': /outside/,
  };
  for (const [script, message] of Object.entries(expected)) {
    const check = checkLocalScript(directory, script);
    if (message === null) await check;
    else await assert.rejects(check, { code: 'job_refused', message }, script);
  }
  await assert.rejects(checkLocalScript(join(folder, 'nowhere'), 'run.sh'), { code: 'job_refused' });
  for (const environment of [{}, { BASH_ENV: join(folder, 'start-up') }]) {
    const shell = createLocalShell({ environment });
    const run = createRunCommand({ shell, commandTimeoutMs: 60_000, onCommand: () => undefined }, slurmVariables);
    for (const [script, message] of Object.entries(expected)) {
      const precondition = scriptCheck(directory, script);
      const result = await run({ argv: ['cat'], stdin: 'input', precondition }, new AbortController().signal);
      const require = () => requireRunnableScript(script, result);
      if (message !== null) assert.throws(require, { code: 'job_refused', message }, script);
      else {
        require();
        const noise = 'BASH_ENV' in environment ? 'noise' : '';
        assert.deepEqual(result, { code: 0, stdout: `${noise}input`, stderr: '' }, script);
      }
    }
    await shell.close();
  }
});

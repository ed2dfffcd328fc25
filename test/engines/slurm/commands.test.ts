import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRunCommand } from '../../../src/engines/slurm/commands.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import { temporaryFolder } from '../../files/temporary.ts';

test('commands run with `set -u` in the start-up file of the account, with and without SLURM_CONF', async (t) => {
  const startUpFile = join(await temporaryFolder(t), 'start-up');
  await writeFile(startUpFile, 'set -u\n');
  for (const configuration of [{}, { SLURM_CONF: '/etc/slurm/other.conf' }]) {
    const shell = createLocalShell({ environment: { BASH_ENV: startUpFile, ...configuration } });
    const run = createRunCommand({ shell, commandTimeoutMs: 60_000, onCommand: () => undefined });
    const printed = await run(
      { argv: ['bash', '-c', 'set +u; echo "conf=$SLURM_CONF"'] },
      new AbortController().signal,
    );
    assert.equal(printed.stderr, '');
    assert.equal(printed.stdout, `conf=${configuration.SLURM_CONF ?? ''}\n`);
    await shell.close();
  }
});

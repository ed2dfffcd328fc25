import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

/** The names of engines and of their commands. */
const names = /slurm|sbatch|\bsrun\b|squeue|sacct|munge|'local'|local engine/i;

/** Files that may name one, with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  'src/engines/registry.ts': 'lists the engines',
  'src/engines/command-languages.ts': 'lists the command languages',
  'src/engines/sandbox/arguments.ts': 'lists files with secrets of a host, whatever runs there',
  'src/contract/submission.ts': 'an example of a command',
  'src/contract/system.ts': 'an example of a command language',
  'src/contract/timeline.ts': 'an example of a command',
  'src/http/openapi/parameters.ts': 'an example of a command',
  'src/cli/user/submit/submit-commands.ts': 'an example of a command',
};

test('only the folder of an engine names it', () => {
  const files = globSync(['src/**/*.{ts,sh}', 'web/src/**/*.{ts,tsx}']);
  const naming = files.filter((file) => names.test(readFileSync(file, 'utf8')));
  const unexpected = naming.filter((file) => !/^src\/engines\/(local|slurm)\//.test(file) && !(file in exceptions));
  assert.deepEqual(unexpected, []);
  for (const file of Object.keys(exceptions)) assert.ok(naming.includes(file), `${file} needs no exception`);
});

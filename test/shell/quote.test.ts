import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { quote } from '../../src/shell/remote-command.ts';

/** What shells treat specially, more often than chance would have it. */
const special = fc.constantFrom(...`'"\\$\`!*?[]{}()<>|&;#~= \n\t\r-%^`);
const word = fc
  .array(fc.oneof(special, fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })), { maxLength: 40 })
  .map((characters) => characters.join(''))
  .filter((each) => !each.includes('\0'));

for (const shell of ['sh', 'bash']) {
  test(`${shell} reads quoted words as they were`, () => {
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 20 }), (words) => {
        const script = `printf '%s\\0' ${words.map(quote).join(' ')}`;
        const { stdout } = spawnSync(shell, ['-c', script], { encoding: 'utf8' });
        assert.deepEqual(stdout.split('\0').slice(0, -1), words);
      }),
      { numRuns: 200 },
    );
  });
}

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { quoteForBash, quoteForShell } from '../../src/shell/quote.ts';
import { isLongRun } from '../support/long-run.ts';

/** Characters with a special meaning in shells, which random strings rarely contain. */
const special = fc.constantFrom(...`'"\\$\`!*?[]{}()<>|&;#~= \n\t\r-%^`);
const word = fc
  .array(fc.oneof(special, fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })), { maxLength: 40 })
  .map((characters) => characters.join(''))
  .filter((characters) => !characters.includes('\0'));

function checkRoundTrip(shell: string, quote: (word: string) => string): void {
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 20 }), (words) => {
      const script = `printf '%s\\0' ${words.map(quote).join(' ')}`;
      const { stdout } = spawnSync(shell, ['-c', script], { encoding: 'utf8' });
      assert.deepEqual(stdout.split('\0').slice(0, -1), words);
    }),
    { numRuns: isLongRun ? 200 : 50 },
  );
}

describe('quoteForShell', () => {
  for (const shell of ['sh', 'bash']) {
    test(`${shell} reads quoted words back unchanged`, () => checkRoundTrip(shell, quoteForShell));
  }
});

describe('quoteForBash', () => {
  test('bash reads quoted words back unchanged', () => checkRoundTrip('bash', quoteForBash));

  test('the quoted word is a single line', () => {
    fc.assert(fc.property(word, (text) => assert.doesNotMatch(quoteForBash(text), /[\r\n]/)));
  });
});

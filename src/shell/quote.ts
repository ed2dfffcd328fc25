import { BursarError } from '../domain/errors.ts';

/** Quotes a word for any POSIX shell. The shell reads it back unchanged, whatever it contains except NUL. */
export function quoteForShell(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Most words contain none of these: a wrapper script has hundreds of words. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be escaped
const mustEscape = /[\0-\x1f\x7f\\']/;

/**
 * Quotes a word for bash on a single line, with control characters escaped. Batch scripts need this: a scheduler may
 * refuse a script that contains CR LF, and could read a line inside a quoted word as a directive. Throws `job_refused` for
 * a word that contains NUL, which no shell can read.
 */
export function quoteForBash(word: string): string {
  if (!mustEscape.test(word)) return `$'${word}'`;
  if (word.includes('\0')) throw new BursarError('job_refused', 'the command contains a NUL character: remove it');
  const escaped = word
    .replace(/[\\']/g, (character) => `\\${character}`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be escaped
    .replace(/[\x01-\x1f\x7f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `$'${escaped}'`;
}

export const quoteAllForBash = (words: readonly string[]) => words.map(quoteForBash).join(' ');

export const unclosedQuote = 'has an unclosed quote; close it, or escape it with a backslash';

/**
 * Splits text into words like a shell: quotes and backslashes work, nothing is expanded. Null: an unclosed quote. Ends at a
 * `commentSign` that is neither quoted nor escaped.
 */
export function splitWords(text: string, commentSign?: '#'): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote: '"' | "'" | null = null;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    if (quote !== null) {
      if (char === quote) quote = null;
      else if (quote === '"' && char === '\\' && /["\\$`]/.test(text.charAt(i + 1))) word += text.charAt(++i);
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (char === '\\' && i + 1 < text.length) {
      word = (word ?? '') + text.charAt(++i);
    } else if (char === commentSign) {
      break;
    } else if (/[ \t\n\r]/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + char;
    }
  }
  if (quote !== null) return null;
  if (word !== null) words.push(word);
  return words;
}

/** Quotes a word so that `splitWords`, and a POSIX shell, read it back unchanged. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

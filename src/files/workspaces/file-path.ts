/** Deeper than anybody's own folders: a chain of folders that goes on for ever must not keep a reader busy. */
export const maxDepth = 100;

/**
 * The names that a path in a workspace is made of, or undefined for one that can lead nowhere in it. Paths are taken as
 * they are listed: nothing is tidied up, so nothing can be smuggled past a check by its spelling.
 */
export function parseFilePath(text: string): string[] | undefined {
  if (text === '') return [];
  const names = text.split('/');
  const isName = (name: string) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0');
  return names.length <= maxDepth && names.every(isName) ? names : undefined;
}

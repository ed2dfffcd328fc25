import ignore from 'ignore';

export const ignoreFileName = '.bursarignore';
/** The description of a job in its folder, for the command line. */
export const settingsFileName = 'bursar.yaml';

/** Left out of every zip, unless a line of .bursarignore brings it back, such as `!bursar.yaml`. */
const ignoredByDefault = ['.git', '/.bursar', `/${ignoreFileName}`, `/${settingsFileName}`, '.DS_Store'];

/** Tells whether a path is left out of the zip. Paths are relative to the folder, with slashes. */
export type IsIgnored = (path: string, kind: 'file' | 'folder') => boolean;

/** The rules of a folder, from the text of its .bursarignore, which has the syntax of .gitignore. */
export function createIgnoreRules(text: string): IsIgnored {
  const rules = ignore().add(ignoredByDefault).add(text);
  return (path, kind) => rules.ignores(kind === 'folder' ? `${path}/` : path);
}

import type { JobCommand, JobRequest } from './job.ts';

/** Messages for scripts that cannot be run. */
export const scriptErrors = {
  absolute: (script: string) => `${script} is an absolute path: give the path of the script inside the zip`,
  outside: (script: string) => `${script} is outside the job's folder: use a script that is in the zip`,
  absent: (script: string) => `${script} is not in the zip: add it at that path, or correct the command`,
} as const;

/** Checks the path of a script. Returns null if it may be in the zip. */
export function findScriptPathError(script: string): string | null {
  if (script.startsWith('/')) return scriptErrors.absolute(script);
  return normalizePath(script) === null ? scriptErrors.outside(script) : null;
}

/** The file of the zip that a job starts with: its script, or the file that its tool reads first. Null if there is none. */
export function startFileOf({ command, entry }: Pick<JobRequest, 'command' | 'entry'>): string | null {
  const path = command.kind === 'script' ? command.script : entry;
  return path === null ? null : normalizePath(path);
}

/**
 * Returns the folder in which a job without a start file starts, if its zip has a single top folder: that one, unless its
 * command names the folder and therefore expects it in the working directory.
 */
export function chooseStartFolder(command: JobCommand, topFolder: string): string {
  const text = command.kind === 'line' ? command.line : command.kind === 'argv' ? command.argv.join(' ') : '';
  const name = `(?<![\\p{L}\\p{N}_.-])${escapeRegExp(topFolder)}`;
  // The first word of a command is a program, which may have the name of the folder.
  const asArgument = `(?<!(?:^|[;&|(\\n])\\s*)${name}(?![\\p{L}\\p{N}_.-])`;
  const namesFolder = new RegExp(`${name}/|${asArgument}`, 'u').test(text);
  return namesFolder ? '' : topFolder;
}

const escapeRegExp = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** Resolves `.` and `..` in a relative path. Returns null if it leaves its folder. */
function normalizePath(path: string): string | null {
  const segments: string[] = [];
  for (const segment of path.split('/')) {
    if (segment === '..' && segments.pop() === undefined) return null;
    if (segment !== '' && segment !== '.' && segment !== '..') segments.push(segment);
  }
  return segments.join('/');
}

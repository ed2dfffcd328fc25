import { BursarError, toPrintable } from '../errors.ts';
import type { JobCommand, JobRequest } from './job.ts';

/** The part of a request that options of a submit command can repeat. */
export type RequestedJob = Pick<JobRequest, 'title' | 'nodes' | 'coresPerNode' | 'runtimeHours'>;

export type ParsedCommand = { ok: true; command: JobCommand } | { ok: false; error: string };

/** How users write the commands of jobs: lines for the shell, and perhaps the submit command of a scheduler. */
export interface CommandLanguage {
  /** Public, at `/hpc/`. */
  name: string;
  /** A command that runs a script, for hints. */
  example: string;
  /** With `job`, options that contradict it are errors: nothing is accepted and then ignored. */
  parse(text: string, job?: RequestedJob): ParsedCommand;
  /** Formats a command so that `parse` returns the same one. Null for the argv of a tool. */
  format(command: JobCommand): string | null;
  /**
   * Returns the first error in the directives of a script, or null. Directives may use the same options as the command.
   * `hasMore`: the text is only the first part of the script.
   */
  findDirectiveError(text: string, job: RequestedJob, hasMore: boolean): string | null;
}

/** Every command is a line for the shell. */
export const plainCommands: CommandLanguage = {
  name: 'none',
  example: './run.sh',
  parse: (text) => ({ ok: true, command: { kind: 'line', line: text } }),
  format: (command) => (command.kind === 'line' ? command.line : null),
  findDirectiveError: () => null,
};

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

/** The part of a job request that says which input files the job needs. */
export type InputRequest = Pick<JobRequest, 'command' | 'tool' | 'entry'>;

/** A file or folder that will be in a zip. The path is relative, with slashes. */
export interface FolderEntry {
  path: string;
  kind: 'file' | 'folder';
  bytes: number;
}

/** The files of an input, for messages. */
interface Contents {
  fileCount: number;
  /** The first ones. */
  fileNames: readonly string[];
}

interface Layout<T> extends Contents {
  /** The folder that everything is in, as in the zips that file managers create; null if there is none. */
  topFolder: string | null;
  /** The start file; null if there is none. It is in `folder`: '' for the top of the zip, or else the top folder. */
  start: { folder: string; entry: T } | null;
}

const maxFileNames = 5;

/** Finds the top folder and the start file in a zip, or in a folder that will become one. */
export function readLayout<T extends Pick<FolderEntry, 'path' | 'kind'>>(
  entries: Iterable<T>,
  startFile: string | null,
): Layout<T> {
  const fileNames: string[] = [];
  let fileCount = 0;
  /** Undefined before the first entry, null if the entries have no common folder. */
  let commonFolder: string | null | undefined;
  let atTop: T | undefined;
  let inFolder: T | undefined;
  for (const entry of entries) {
    const { path, kind } = entry;
    if (path === '' || isFileManagerMetadata(path)) continue;
    const slash = path.indexOf('/');
    const topName = slash === -1 ? path : path.slice(0, slash);
    const folder = slash === -1 && kind === 'file' ? null : topName;
    if (commonFolder === undefined) commonFolder = folder;
    else if (commonFolder !== folder) commonFolder = null;
    if (kind === 'folder') continue;
    if (path === startFile) atTop = entry;
    else if (path.slice(slash + 1) === startFile) inFolder ??= entry;
    if (fileCount++ < maxFileNames) fileNames.push(path);
  }
  const topFolder = commonFolder ?? null;
  const layout = { topFolder, fileCount, fileNames };
  if (atTop !== undefined) return { ...layout, start: { folder: '', entry: atTop } };
  // Of several top folders none is preferred.
  if (topFolder === null || inFolder === undefined) return { ...layout, start: null };
  return { ...layout, start: { folder: topFolder, entry: inFolder } };
}

/** Files that macOS adds to zips and folders. */
function isFileManagerMetadata(path: string): boolean {
  return path === '__MACOSX' || path.startsWith('__MACOSX/') || path === '.DS_Store' || path.endsWith('/.DS_Store');
}

/** Returns the error for files that lack the one that the job starts with; null if they have it, or if it needs none. */
export function findStartFileError(request: InputRequest, entries: readonly FolderEntry[] | null): BursarError | null {
  const startFile = startFileOf(request);
  if (startFile === null) return null;
  const layout = entries && readLayout(entries, startFile);
  return layout?.start ? null : missingStartFile(request, startFile, layout);
}

export function missingStartFile({ tool }: InputRequest, name: string, input: Contents | null): BursarError {
  const user = tool === null ? 'the command starts' : `the tool ${tool} reads first`;
  const remedy = tool === null ? `Add ${name}, or correct the command` : `Add ${name}`;
  const problem =
    input === null
      ? `The request has no zip, so it lacks ${name}, which ${user}. Send a zip with ${name} as the body`
      : `The zip lacks ${name}, which ${user}. ${describeContents(input)}. ${remedy}`;
  const fields = [{ field: tool === null ? 'command' : 'tool', message: `${name} is not in the zip` }];
  return new BursarError('start_file_missing', `${problem}.`, { fields });
}

function describeContents({ fileNames, fileCount }: Contents): string {
  if (fileCount === 0) return 'It contains no files';
  const names = fileNames.map((name) => toPrintable(name, 80)).join(', ');
  const more = fileCount - fileNames.length;
  return `It contains ${names}${more > 0 ? ` and ${more} more` : ''}`;
}

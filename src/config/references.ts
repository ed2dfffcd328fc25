import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { errnoCode, type FieldError } from '../domain/errors.ts';
import { parseTemplate, type Reference, type Template, TemplateError, userInfoReferences } from './template.ts';

/** Where the values of a configuration come from, if they are not in the configuration itself. */
export interface References {
  /** The text of each setting with a reference, such as `${file:/etc/bursar/token}`, by the path of the setting. */
  templates: ReadonlyMap<string, string>;
  /** The text of each reference by its value, to keep values out of messages. */
  textByValue: ReadonlyMap<string, string>;
  /** The files that were read. */
  files: readonly string[];
}

/** The property of a configuration with its references. A symbol, so that it is neither printed nor validated. */
export const referencesKey = Symbol('references');

const maxFileBytes = 65_536;

class UnresolvedError extends Error {}

/**
 * Replaces `${file:/path}` and `${env:NAME}` in all texts of a configuration. The values themselves are not searched for
 * references. Errors name the setting and the reference, never a value.
 */
export function resolveReferences(
  config: unknown,
  environment: NodeJS.ProcessEnv,
): { config: unknown; references: References; errors: FieldError[] } {
  const templates = new Map<string, string>();
  const textByValue = new Map<string, string>();
  const files: string[] = [];
  const errors: FieldError[] = [];

  function read({ kind, argument, text }: Reference): string {
    const name = expand(argument);
    if (kind === 'file') files.push(name);
    const value = kind === 'file' ? readSecretFile(name, text) : readVariable(name, text, environment);
    textByValue.set(value, text);
    textByValue.set(encodeURIComponent(value), text);
    return value;
  }

  function expand(template: Template, isEncoded: (reference: Reference) => boolean = () => false): string {
    const values = template.map((part) => {
      if (typeof part === 'string') return part;
      return isEncoded(part) ? encodeURIComponent(read(part)) : read(part);
    });
    return values.join('');
  }

  function resolveText(text: string, path: string): string {
    try {
      const template = parseTemplate(text);
      if (template.some((part) => typeof part !== 'string')) templates.set(path, text);
      const userInfo = userInfoReferences(template);
      return expand(template, (reference) => userInfo.has(reference));
    } catch (error) {
      if (!(error instanceof UnresolvedError) && !(error instanceof TemplateError)) throw error;
      errors.push({ field: path, message: error.message });
      return text;
    }
  }

  const resolved = mapTexts(config, resolveText);
  return { config: resolved, references: { templates, textByValue, files }, errors };
}

/** Replaces every text in a tree of objects and lists. Keys stay as they are. */
export function mapTexts(value: unknown, replace: (text: string, path: string) => unknown, path = ''): unknown {
  if (typeof value === 'string') return replace(value, path);
  if (typeof value !== 'object' || value === null) return value;
  const inner = (key: string | number, item: unknown) =>
    mapTexts(item, replace, path === '' ? `${key}` : `${path}.${key}`);
  if (Array.isArray(value)) return value.map((item, index) => inner(index, item));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inner(key, item)]));
}

function readVariable(name: string, text: string, environment: NodeJS.ProcessEnv): string {
  const value = environment[name];
  if (value) return value;
  throw new UnresolvedError(`${text}: the environment variable ${name} is ${value === '' ? 'empty' : 'not set'}`);
}

/** Removes one newline at the end, which editors and `echo` add. */
function readSecretFile(file: string, text: string): string {
  if (!isAbsolute(file)) throw new UnresolvedError(`${text}: the path of the file must begin with /`);
  const value = readPrivateFile(file, text).replace(/\r?\n$/, '');
  if (value === '') throw new UnresolvedError(`${text}: the file is empty`);
  return value;
}

function readPrivateFile(file: string, text: string): string {
  let descriptor: number;
  try {
    // Otherwise a named pipe blocks until somebody writes to it.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = errnoCode(error);
    const problem = code === 'ENOENT' ? 'the file does not exist' : `the file cannot be read (${code})`;
    throw new UnresolvedError(`${text}: ${problem}`);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw new UnresolvedError(`${text}: this is not a file`);
    if (stats.size > maxFileBytes) throw new UnresolvedError(`${text}: the file is larger than ${maxFileBytes} bytes`);
    // Permissions of a group stay possible: a file of root gives a service access so.
    if ((stats.mode & 0o007) !== 0)
      throw new UnresolvedError(`${text}: other users of this host have access to the file. Run "chmod o-rwx ${file}"`);
    return decodeText(readFileSync(descriptor), text);
  } finally {
    closeSync(descriptor);
  }
}

/** A file that is not text would become a secret of replacement characters, which others could guess. */
function decodeText(bytes: Buffer, text: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UnresolvedError(`${text}: the file is not text in UTF-8. Write a binary key in base64`);
  }
}

import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { ScalarTag } from 'yaml';
import { errnoCode, type FieldError } from '../domain/errors.ts';
import { isOpenToOthers } from './private-file.ts';

const kinds = ['file', 'env'] as const;

/** Names the file or the environment variable with the value of a setting: `!file /path` or `!env NAME` in YAML. */
export class Reference {
  readonly kind: (typeof kinds)[number];
  readonly argument: string;

  constructor(kind: Reference['kind'], argument: string) {
    this.kind = kind;
    this.argument = argument;
  }

  /** As it is written in the configuration. */
  toString(): string {
    return `!${this.kind} ${this.argument}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

export const referenceTags: ScalarTag[] = kinds.map((kind) => ({
  tag: `!${kind}`,
  identify: (value) => value instanceof Reference && value.kind === kind,
  resolve: (argument) => new Reference(kind, argument),
  stringify: ({ value }) => JSON.stringify((value as Reference).argument),
}));

export interface ResolvedReferences {
  /** By the path of the setting. */
  byPath: ReadonlyMap<string, Reference>;
  /** To keep values out of messages. */
  byValue: ReadonlyMap<string, Reference>;
  files: readonly string[];
}

/** The property of a configuration with its references. A symbol, so that it is neither printed nor validated. */
export const referencesKey = Symbol('references');

const maxFileBytes = 65_536;

class UnresolvedError extends Error {}

/** Replaces the references in a configuration by their values. Errors name the setting and the reference, never a value. */
export function resolveReferences(
  config: unknown,
  environment: NodeJS.ProcessEnv,
): { config: unknown; references: ResolvedReferences; errors: FieldError[] } {
  const byPath = new Map<string, Reference>();
  const byValue = new Map<string, Reference>();
  const files: string[] = [];
  const errors: FieldError[] = [];

  function read({ kind, argument }: Reference): string {
    if (argument === '') throw new UnresolvedError('it is empty. Write !file /path or !env NAME');
    if (kind === 'env') return readVariable(argument, environment);
    const file = findFile(argument, environment);
    files.push(file);
    return readSecretFile(file);
  }

  const resolved = mapLeaves(config, (value, path) => {
    if (!(value instanceof Reference)) return value;
    byPath.set(path, value);
    try {
      const text = read(value);
      byValue.set(text, value);
      return text;
    } catch (error) {
      if (!(error instanceof UnresolvedError)) throw error;
      errors.push({ field: path, message: `${value}: ${error.message}` });
      return value;
    }
  });
  return { config: resolved, references: { byPath, byValue, files }, errors };
}

/** Replaces every value in a tree of objects and lists. Keys stay as they are. */
export function mapLeaves(value: unknown, replace: (leaf: unknown, path: string) => unknown, path = ''): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Reference) return replace(value, path);
  const inner = (key: string | number, item: unknown) =>
    mapLeaves(item, replace, path === '' ? `${key}` : `${path}.${key}`);
  if (Array.isArray(value)) return value.map((item, index) => inner(index, item));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inner(key, item)]));
}

function readVariable(name: string, environment: NodeJS.ProcessEnv): string {
  const value = environment[name];
  if (value) return value;
  throw new UnresolvedError(`the environment variable ${name} is ${value === '' ? 'empty' : 'not set'}`);
}

/** systemd gives a service its credentials as files of a folder, which this variable names. */
function findFile(path: string, { CREDENTIALS_DIRECTORY: folder }: NodeJS.ProcessEnv): string {
  if (isAbsolute(path)) return path;
  if (folder) return join(folder, path);
  throw new UnresolvedError('the path must begin with /, unless it names a credential of systemd (LoadCredential=)');
}

/** Removes one newline at the end, which editors and `echo` add. */
function readSecretFile(file: string): string {
  const value = readPrivateFile(file).replace(/\r?\n$/, '');
  if (value === '') throw new UnresolvedError('the file is empty');
  return value;
}

function readPrivateFile(file: string): string {
  let descriptor: number;
  try {
    // Otherwise a named pipe blocks until somebody writes to it.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = errnoCode(error);
    throw new UnresolvedError(code === 'ENOENT' ? 'the file does not exist' : `the file cannot be read (${code})`);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw new UnresolvedError('this is not a file');
    if (stats.size > maxFileBytes) throw new UnresolvedError(`the file is larger than ${maxFileBytes} bytes`);
    if (isOpenToOthers(stats.mode))
      throw new UnresolvedError(`other users of this host have access to the file. Run "chmod o-rwx ${file}"`);
    return decodeText(readFileSync(descriptor));
  } finally {
    closeSync(descriptor);
  }
}

/** A file that is not text would become a secret of replacement characters, which others could guess. */
function decodeText(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UnresolvedError('the file is not text in UTF-8. Write a binary key in base64');
  }
}

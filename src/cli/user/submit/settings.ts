import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { closest } from 'fastest-levenshtein';
import { BursarError, errnoCode, toPrintable } from '../../../domain/errors.ts';
import { settingsFileName } from '../../../files/zip/ignore-rules.ts';

/** The description of a job, from bursar.yaml and from options. An absent value has the default of the system. */
export interface JobSettings {
  system?: string;
  project?: string;
  command?: string;
  tool?: string;
  nodes?: number;
  cores?: number;
  /** In hours. */
  runtime?: number;
  title?: string;
  tags?: string[];
  params: Record<string, string>;
}

/** Options that are not given are undefined. */
type GivenOptions = { [Key in keyof JobSettings]: JobSettings[Key] | undefined };

type Parse<T> = (value: unknown) => T;

const parsers: { [Key in keyof Required<JobSettings>]: Parse<NonNullable<JobSettings[Key]>> } = {
  system: parseText,
  project: parseText,
  command: parseText,
  tool: parseText,
  nodes: parseWholeNumber,
  cores: parseWholeNumber,
  runtime: parseRuntimeHours,
  title: parseText,
  tags: parseTexts,
  params: parseMap,
};

/** Reads bursar.yaml of a folder. A folder without one has no settings. Throws `invalid_argument` for a file with errors. */
export async function readSettingsFile(folder: string): Promise<JobSettings> {
  const path = join(folder, settingsFileName);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return { params: {} };
    throw invalid(`${path} cannot be read (${errnoCode(error) ?? String(error)}).`, error);
  }
  return await parseSettings(text, path);
}

/** Parses the text of bursar.yaml. An unknown key is an error with the nearest known key. */
export async function parseSettings(text: string, path: string): Promise<JobSettings> {
  // Most commands need no YAML, so it is loaded with the first file.
  const { parseDocument } = await import('yaml');
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error) throw invalid(`${path} is not valid YAML: ${error.message.split('\n', 1)[0]}`);
  const value: unknown = document.toJS() ?? {};
  if (!isMap(value)) throw invalid(`${path} must have one setting a line, such as "system: hpc_one".`);
  const settings: Record<string, unknown> = { params: {} };
  for (const [key, setting] of Object.entries(value)) {
    if (!Object.hasOwn(parsers, key)) throw unknownKey(key, path);
    try {
      settings[key] = parsers[key as keyof JobSettings](setting);
    } catch (cause) {
      throw invalid(`${path}: ${key} ${cause instanceof Error ? cause.message : cause}`, cause);
    }
  }
  return settings as unknown as JobSettings;
}

function unknownKey(key: string, path: string): BursarError {
  const known = Object.keys(parsers);
  const hint = `Did you mean "${closest(key, known)}"? The keys are ${known.join(', ')}.`;
  return invalid(`${path}: "${toPrintable(key, 40)}" is not a known key. ${hint}`);
}

/** Options win over the file. A command of one replaces a tool of the other; parameters are merged by name. */
export function mergeSettings(file: JobSettings, options: GivenOptions): JobSettings {
  const { command, tool, ...rest } = file;
  const program = options.command !== undefined || options.tool !== undefined ? {} : { command, tool };
  const merged = { ...rest, ...program, ...withoutUndefined(options), params: { ...file.params, ...options.params } };
  return withoutUndefined(merged) as JobSettings;
}

function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
}

/** Parses hours (`1.5`), or `90m`, `12h`, `2d`, `01:30:00`. */
export function parseRuntimeHours(value: unknown): number {
  const text = String(value).trim();
  const [, hours, minutes, seconds] = /^(\d+):([0-5]\d)(?::([0-5]\d))?$/.exec(text) ?? [];
  if (hours !== undefined) return round(Number(hours) + Number(minutes) / 60 + Number(seconds ?? 0) / 3600);
  const [, amount, unit = 'h'] = /^(\d+(?:\.\d+)?|\.\d+)\s*([smhd]?)$/.exec(text) ?? [];
  const factor = { s: 1 / 3600, m: 1 / 60, h: 1, d: 24 }[unit || 'h'] ?? 1;
  const result = round(Number(amount) * factor);
  if (amount === undefined || !(result > 0)) {
    throw new Error(`must be a time: hours, such as 1.5, or 90m, 12h, 2d, 01:30:00; it is "${toPrintable(text, 40)}"`);
  }
  return result;
}

/** Cuts the decimals that people do not read. Never rounds up, because the server charges every second that has begun. */
function round(hours: number): number {
  return Math.floor(Number((hours * 1e6).toFixed(3))) / 1e6;
}

export function parseWholeNumber(value: unknown): number {
  const text = String(value).trim();
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Error(`must be a whole number from 1; it is "${toPrintable(text, 40)}"`);
  return Number(text);
}

function parseText(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') throw new Error('must be text');
  return String(value);
}

function parseTexts(value: unknown): string[] {
  if (typeof value === 'string') return value.split(/[\s,]+/).filter((word) => word !== '');
  if (!Array.isArray(value)) throw new Error('must be a list of words');
  return value.map(parseText);
}

function parseMap(value: unknown): Record<string, string> {
  if (!isMap(value)) throw new Error('must have one parameter a line, such as "steps: 100"');
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, parseParameter(name, member)]));
}

function parseParameter(name: string, value: unknown): string {
  if (['string', 'number', 'boolean'].includes(typeof value)) return String(value);
  throw new Error(`must have text, a number, true or false for ${toPrintable(name, 40)}`);
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(message: string, cause?: unknown): BursarError {
  return new BursarError('invalid_argument', message, { cause });
}

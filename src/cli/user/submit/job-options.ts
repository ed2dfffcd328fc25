import { basename } from 'node:path';
import { usageError } from '../errors.ts';
import type { OpenedInput } from './open-input.ts';
import { type JobSettings, mergeSettings, parseRuntimeHours, parseWholeNumber, readSettingsFile } from './settings.ts';

/** The options of `submit` and `sweep` that describe a job. */
export interface JobOptions {
  /** A folder or a zip. */
  input?: string | undefined;
  system?: string | undefined;
  project?: string | undefined;
  command?: string | undefined;
  tool?: string | undefined;
  nodes?: string | undefined;
  cores?: string | undefined;
  runtime?: string | undefined;
  title?: string | undefined;
  tag?: readonly string[] | undefined;
}

/** Reads bursar.yaml of a folder. Options win over it. A job without a title is named after its folder or zip. */
export async function readSettings(
  input: OpenedInput,
  options: JobOptions,
  params: Record<string, string>,
): Promise<JobSettings> {
  const file = input.kind === 'folder' ? await readSettingsFile(input.path) : { params: {} };
  const { system, project, command, tool, title, tag } = options;
  const fromOptions: JobSettings = {
    ...definedOnly({ system, project, command, tool, title }),
    ...parseOption('nodes', '--nodes', options.nodes, parseWholeNumber),
    ...parseOption('cores', '--cores', options.cores, parseWholeNumber),
    ...parseOption('runtime', '--runtime', options.runtime, parseRuntimeHours),
    ...(tag === undefined || tag.length === 0 ? {} : { tags: [...tag] }),
    params,
  };
  const merged = mergeSettings(file, fromOptions);
  if (merged.title !== undefined || input.kind === 'none') return merged;
  return { ...merged, title: basename(input.path).replace(/\.zip$/i, '') };
}

function parseOption<Key extends string>(
  key: Key,
  option: string,
  text: string | undefined,
  parse: (text: string) => number,
): { [K in Key]?: number } {
  if (text === undefined) return {};
  try {
    return { [key]: parse(text) } as { [K in Key]?: number };
  } catch (error) {
    throw usageError(`${option} ${error instanceof Error ? error.message : error}.`);
  }
}

function definedOnly<T extends object>(value: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as never;
}

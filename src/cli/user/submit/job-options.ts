import { basename } from 'node:path';
import { parseCount, parseHours } from '../parse-options.ts';
import type { OpenedInput } from './open-input.ts';
import { type JobSettings, mergeSettings, readSettingsFile } from './settings.ts';

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
  const merged = mergeSettings(file, {
    ...{ system, project, command, tool, title, params },
    nodes: parseCount('--nodes', options.nodes),
    cores: parseCount('--cores', options.cores),
    runtime: parseHours(options.runtime),
    tags: tag === undefined || tag.length === 0 ? undefined : [...tag],
  });
  if (merged.title !== undefined || input.kind === 'none') return merged;
  return { ...merged, title: basename(input.path).replace(/\.zip$/i, '') };
}

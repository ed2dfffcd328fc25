import type { System } from '#client';
import { parseBatchCommand } from '../../../domain/jobs/batch-command.ts';
import { startFileOf } from '../../../domain/jobs/start-file.ts';
import { checkFolder, checkInput, type FolderEntry, type InputRequest } from '../../../files/zip/check-input.ts';
import type { ZipLimits } from '../../../files/zip/zip-entries.ts';
import { usageError } from '../errors.ts';
import { listFolder } from './folder-files.ts';
import { readIgnoredPaths } from './ignored-paths.ts';
import type { JobInput } from './job-options.ts';
import type { JobSettings } from './settings.ts';

/** Checks the input of several jobs that have it in common. A folder is listed once, and each start file checked once. */
export interface LocalInputCheck {
  /** Throws what the server would answer: `invalid_zip` or `start_file_missing`. Nothing has been sent then. */
  check(settings: JobSettings): Promise<void>;
}

export function createLocalInputCheck(input: JobInput, system: System): LocalInputCheck {
  const checked = new Set<string | null>();
  const limits = zipLimits(system);
  let entries: Promise<FolderEntry[]> | undefined;
  return {
    async check(settings) {
      const request = toInputRequest(settings, system);
      const startFile = startFileOf(request);
      if (checked.has(startFile)) return;
      if (input.kind === 'folder') {
        entries ??= readIgnoredPaths(input.path).then((isIgnored) => listFolder(input.path, isIgnored));
        checkFolder(request, await entries, limits);
      } else {
        const zip = input.kind === 'zip' ? ({ kind: 'file', path: input.path } as const) : null;
        const maxVerifiedBytes = system.input_limits.verified_bytes;
        await checkInput(request, zip, { zipLimits: limits, maxVerifiedBytes, hasDirectives: false });
      }
      checked.add(startFile);
    },
  };
}

function zipLimits({ input_limits: { entries, unpacked_bytes, ratio } }: System): ZipLimits {
  return { maxEntries: entries, maxUnpackedBytes: unpacked_bytes, maxRatio: ratio };
}

function toInputRequest({ command = '', tool }: JobSettings, system: System): InputRequest {
  if (tool !== undefined) {
    const entry = system.tools.find(({ name }) => name === tool)?.entry ?? null;
    return { command: { kind: 'argv', argv: [] }, tool, entry };
  }
  const parsed = parseBatchCommand(command);
  if (!parsed.ok) throw usageError(`The command is not valid: ${parsed.error}.`);
  return { command: parsed.command, tool: null, entry: null };
}

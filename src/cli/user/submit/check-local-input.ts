import type { FolderEntry, System } from '#client';
import { BursarError } from '../../../domain/errors.ts';
import { formatBytes } from '../../../domain/format-amount.ts';
import { type InputRequest, startFileOf } from '../../../domain/jobs/command.ts';
import { findCommandLanguage } from '../../../engines/command-languages.ts';
import { createInputCheck } from '../../../files/zip/check-input.ts';
import { checkFolder } from '../../../files/zip/list-input.ts';
import type { ZipLimits } from '../../../files/zip/zip-entries.ts';
import { usageError } from '../errors.ts';
import { checkRatio } from './check-ratio.ts';
import type { OpenedInput } from './open-input.ts';

/** Throws what the server would answer: `invalid_zip`, `too_large` or `start_file_missing`. Nothing has been sent then. */
export type LocalInputCheck = (program: Program) => Promise<void>;

interface Program {
  command?: string | undefined;
  tool?: string | undefined;
}

/** Checks the input of jobs that have it in common: everything once, and then whether it has the start file of a job. */
export function createLocalInputCheck(input: OpenedInput, system: System): LocalInputCheck {
  const checkedStartFiles = new Set<string | null>();
  const limits = zipLimits(system);
  let ratioCheck: Promise<void> | undefined;
  return async (program) => {
    const request = toInputRequest(program, system);
    const startFile = startFileOf(request);
    if (checkedStartFiles.has(startFile)) return;
    if (input.kind === 'folder') {
      checkFolder(request, input.source.entries.map(toFolderEntry), limits);
      ratioCheck ??= checkRatio(input.path, input.source.entries, limits);
      await ratioCheck;
    } else await checkZip(request, input, system);
    checkedStartFiles.add(startFile);
  };
}

const toFolderEntry = ({ path, kind, size }: FolderEntry) => ({ path, kind, bytes: size });

async function checkZip(request: InputRequest, input: Exclude<OpenedInput, { kind: 'folder' }>, system: System) {
  const { bytes: maxBytes, verified_bytes } = system.input_limits;
  const zip = input.kind === 'zip' ? ({ kind: 'file', path: input.path } as const) : null;
  const size = input.kind === 'zip' ? (input.source.totalBytes ?? 0) : 0;
  if (size > maxBytes) {
    throw new BursarError('too_large', `The zip is larger than the limit of ${formatBytes(maxBytes)}. Send less data.`);
  }
  const checkInput = createInputCheck({ zipLimits: zipLimits(system), maxVerifiedBytes: verified_bytes });
  await checkInput(request, zip, null);
}

function zipLimits({ input_limits: { entries, unpacked_bytes, ratio } }: System): ZipLimits {
  return { maxEntries: entries, maxUnpackedBytes: unpacked_bytes, maxRatio: ratio };
}

function toInputRequest({ command = '', tool }: Program, system: System): InputRequest {
  if (tool !== undefined) {
    const entry = system.tools.find(({ name }) => name === tool)?.entry ?? null;
    return { command: { kind: 'argv', argv: [] }, tool, entry };
  }
  const parsed = findCommandLanguage(system.command_language).parse(command);
  if (!parsed.ok) throw usageError(`The command is not valid: ${parsed.error}.`);
  return { command: parsed.command, tool: null, entry: null };
}

import { BursarError } from '../../domain/errors.ts';
import { validateSbatchDirectives } from '../../domain/jobs/batch-command.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { chooseStartFolder, startFileOf } from '../../domain/jobs/start-file.ts';
import { createLayout, type InputSummary, inspectInput } from './inspect-input.ts';
import { createPathTree } from './zip-directory.ts';
import type { ZipLimits } from './zip-entries.ts';
import { invalidEntry, invalidZip, toPrintable } from './zip-errors.ts';
import { parseName } from './zip-names.ts';
import type { ZipSource } from './zip-source.ts';

// The rules for the input files of a job. The server and the users' command line both use them.

/** The `#SBATCH` lines of a script must be in this part of it. */
const maxStartBytes = 65_536;

export interface InputCheckOptions {
  zipLimits: ZipLimits;
  /** The contents of larger zips are verified when the job is dispatched. */
  maxVerifiedBytes: number;
}

/** The part of a job request that says which input files the job needs. */
export type InputRequest = Pick<JobRequest, 'command' | 'tool' | 'entry'>;

/** Where a job starts: '' for the top of the zip, or the name of its top folder. */
export interface CheckedInput {
  unpackedBytes: number;
  startFolder: string;
}

/**
 * Checks the zip of a submission, or that the job needs none. Throws `invalid_zip`, `start_file_missing`, or, if
 * `hasDirectives` is set, `invalid_payload` for a script whose `#SBATCH` lines use options that a command may not use.
 */
export async function checkInput(
  request: InputRequest,
  zip: ZipSource | null,
  options: InputCheckOptions & { hasDirectives: boolean },
): Promise<CheckedInput> {
  const { zipLimits, maxVerifiedBytes, hasDirectives } = options;
  const startFile = startFileOf(request);
  if (zip === null) {
    if (startFile !== null) throw missingStartFile(request, startFile, null);
    return { unpackedBytes: 0, startFolder: '' };
  }
  const startBytes = hasDirectives ? maxStartBytes : 0;
  const input = await inspectInput(zip, {
    startFile,
    maxStartBytes: startBytes,
    maxVerifiedBytes,
    limits: zipLimits,
  });
  const { unpackedBytes, topFolder } = input;
  if (startFile === null) {
    return { unpackedBytes, startFolder: topFolder === null ? '' : chooseStartFolder(request.command, topFolder) };
  }
  if (input.startFile === null) throw missingStartFile(request, startFile, input);
  if (hasDirectives) requireValidDirectives(startFile, input.startFile.firstBytes);
  return { unpackedBytes, startFolder: input.startFile.folder };
}

/** A file or folder that will be in a zip. The path is relative, with slashes. */
export interface FolderEntry {
  path: string;
  kind: 'file' | 'folder';
  bytes: number;
}

/**
 * Checks the files of a folder before they are zipped, by the rules of `checkInput` that need no compressed data. Throws
 * `invalid_zip` or `start_file_missing`.
 */
export function checkFolder(request: InputRequest, entries: readonly FolderEntry[], limits: ZipLimits): void {
  const startFile = startFileOf(request);
  const tree = createPathTree(limits.maxEntries);
  const layout = createLayout<FolderEntry>(startFile);
  let unpackedBytes = 0;
  if (entries.length > limits.maxEntries) {
    const problem = `The folder has ${entries.length} files and folders, and at most ${limits.maxEntries} are allowed`;
    throw invalidZip(`${problem}. Pack many small files into one, such as a tar file.`);
  }
  for (const entry of entries) {
    parseName(entry.path, Buffer.from(entry.path));
    tree.add(entry);
    layout.add(entry);
    unpackedBytes += entry.bytes;
    if (entry.bytes > limits.maxUnpackedBytes) {
      throw invalidEntry(entry.path, `has more than ${limits.maxUnpackedBytes} bytes`, 'Send less data.');
    }
  }
  if (unpackedBytes > limits.maxUnpackedBytes) {
    throw invalidZip(`The folder has more than ${limits.maxUnpackedBytes} bytes. Send less data.`);
  }
  const { start, ...contents } = layout.read();
  if (startFile !== null && start === null) throw missingStartFile(request, startFile, contents);
}

function requireValidDirectives(name: string, firstBytes: Buffer): void {
  const problem = validateSbatchDirectives(firstBytes.toString('utf8'));
  if (problem === null) return;
  const fields = [{ field: 'command', message: `${name}: ${problem}` }];
  throw new BursarError('invalid_payload', `The script ${name} is not valid: ${problem}.`, { fields });
}

type Contents = Pick<InputSummary, 'fileNames' | 'fileCount'>;

function missingStartFile({ tool }: InputRequest, name: string, input: Contents | null): BursarError {
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

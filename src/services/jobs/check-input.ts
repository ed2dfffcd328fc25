import pLimit from 'p-limit';
import { BursarError } from '../../domain/errors.ts';
import { validateSbatchDirectives } from '../../domain/jobs/batch-command.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { chooseStartFolder, startFileOf } from '../../domain/jobs/start-file.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import { type InputSummary, inspectInput } from '../../files/zip/inspect-input.ts';
import type { ZipLimits } from '../../files/zip/zip-entries.ts';
import { toPrintable } from '../../files/zip/zip-errors.ts';
import type { ZipSource } from '../../files/zip/zip-source.ts';

/** The `#SBATCH` lines of a script must be in this part of it. */
const maxStartBytes = 65_536;

/** Zips in files are checked by so few at a time: unpacking takes CPU time, and a long directory takes memory. */
const maxConcurrentChecks = 2;

export interface InputCheckOptions {
  zipLimits: ZipLimits;
  /** The contents of larger zips are verified when the job is dispatched. */
  maxVerifiedBytes: number;
}

/** Where a job starts: '' for the top of the zip, or the name of its top folder. */
export interface CheckedInput {
  unpackedBytes: number;
  startFolder: string;
}

export type CheckInput = (system: HpcSystem, request: JobRequest, zip: ZipSource | null) => Promise<CheckedInput>;

/**
 * Returns a function that checks the zip of a submission, or that the job needs none. It throws `invalid_zip`,
 * `start_file_missing`, or `invalid_payload` if the script of a Slurm job uses options that a command may not use.
 */
export function createInputCheck({ zipLimits, maxVerifiedBytes }: InputCheckOptions): CheckInput {
  const limit = pLimit(maxConcurrentChecks);
  return async (system, request, zip) => {
    const startFile = startFileOf(request);
    if (zip === null) {
      if (startFile !== null) throw missingStartFile(request, startFile, null);
      return { unpackedBytes: 0, startFolder: '' };
    }
    const hasDirectives = system.engine === 'slurm' && request.command.kind === 'script';
    const startBytes = hasDirectives ? maxStartBytes : 0;
    const inspect = () =>
      inspectInput(zip, { startFile, maxStartBytes: startBytes, maxVerifiedBytes, limits: zipLimits });
    const input = await (zip.kind === 'memory' ? inspect() : limit(inspect));
    const { unpackedBytes, topFolder } = input;
    if (startFile === null) {
      return { unpackedBytes, startFolder: topFolder === null ? '' : chooseStartFolder(request.command, topFolder) };
    }
    if (input.startFile === null) throw missingStartFile(request, startFile, input);
    if (hasDirectives) requireValidDirectives(startFile, input.startFile.firstBytes);
    return { unpackedBytes, startFolder: input.startFile.folder };
  };
}

function requireValidDirectives(name: string, firstBytes: Buffer): void {
  const problem = validateSbatchDirectives(firstBytes.toString('utf8'));
  if (problem === null) return;
  const fields = [{ field: 'command', message: `${name}: ${problem}` }];
  throw new BursarError('invalid_payload', `The script ${name} is not valid: ${problem}.`, { fields });
}

function missingStartFile({ tool }: JobRequest, name: string, input: InputSummary | null): BursarError {
  const user = tool === null ? 'the command starts' : `the tool ${tool} reads first`;
  const remedy = tool === null ? `Add ${name}, or correct the command` : `Add ${name}`;
  const problem =
    input === null
      ? `The request has no zip, so it lacks ${name}, which ${user}. Send a zip with ${name} as the body`
      : `The zip lacks ${name}, which ${user}. ${describeContents(input)}. ${remedy}`;
  const fields = [{ field: tool === null ? 'command' : 'tool', message: `${name} is not in the zip` }];
  return new BursarError('start_file_missing', `${problem}.`, { fields });
}

function describeContents({ fileNames, fileCount }: InputSummary): string {
  if (fileCount === 0) return 'It contains no files';
  const names = fileNames.map((name) => toPrintable(name, 80)).join(', ');
  const more = fileCount - fileNames.length;
  return `It contains ${names}${more > 0 ? ` and ${more} more` : ''}`;
}

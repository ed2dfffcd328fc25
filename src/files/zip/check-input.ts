import { BursarError } from '../../domain/errors.ts';
import { type RequestedJob, validateSbatchDirectives } from '../../domain/jobs/batch-command.ts';
import { chooseStartFolder, startFileOf } from '../../domain/jobs/start-file.ts';
import { inspectInput } from './inspect-input.ts';
import { type InputRequest, missingStartFile } from './start-file-error.ts';
import type { ZipLimits } from './zip-entries.ts';
import type { ZipSource } from './zip-source.ts';

// The rules for the zip of a job. The server and the users' command line both use them.

/** The `#SBATCH` lines of a script must be in this part of it. */
const maxStartBytes = 65_536;

export interface InputCheckOptions {
  zipLimits: ZipLimits;
  /** The contents of larger zips are verified when the job is dispatched. */
  maxVerifiedBytes: number;
}

/** A job starts in `startFolder`: '' for the top of the zip, or the name of its top folder. */
export interface CheckedInput {
  unpackedBytes: number;
  startFolder: string;
}

/**
 * Checks the zip of a submission, or that the job needs none. Throws `invalid_zip`, `start_file_missing`, or, if
 * `batchJob` is set, `invalid_payload` for a script whose `#SBATCH` lines use options that its command may not use.
 */
export async function checkInput(
  request: InputRequest,
  zip: ZipSource | null,
  options: InputCheckOptions & { batchJob: RequestedJob | null },
): Promise<CheckedInput> {
  const { zipLimits, maxVerifiedBytes, batchJob } = options;
  const startFile = startFileOf(request);
  if (zip === null) {
    if (startFile !== null) throw missingStartFile(request, startFile, null);
    return { unpackedBytes: 0, startFolder: '' };
  }
  const startBytes = batchJob === null ? 0 : maxStartBytes;
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
  if (batchJob !== null) requireValidDirectives(startFile, input.startFile.firstBytes, batchJob);
  return { unpackedBytes, startFolder: input.startFile.folder };
}

function requireValidDirectives(name: string, firstBytes: Buffer, job: RequestedJob): void {
  const hasMore = firstBytes.length >= maxStartBytes;
  const problem = validateSbatchDirectives(firstBytes.toString('utf8'), job, hasMore);
  if (problem === null) return;
  const fields = [{ field: 'command', message: `${name}: ${problem}` }];
  throw new BursarError('invalid_payload', `The script ${name} is not valid: ${problem}.`, { fields });
}

import { BursarError } from '../../domain/errors.ts';
import {
  chooseStartFolder,
  type InputRequest,
  missingStartFile,
  readLayout,
  startFileOf,
} from '../../domain/jobs/command.ts';
import { createSlots } from '../../domain/slots.ts';
import { type CheckedZip, readStart, withZip, type ZipSource } from './zip-content.ts';
import type { ZipEntry, ZipLimits } from './zip-entries.ts';

/** The directives of a script must be in this part of it. */
const maxStartBytes = 65_536;
/** Zips in files are checked by so few at a time: unpacking takes CPU time, and a long directory takes memory. */
const maxConcurrentChecks = 2;

export interface InputCheckOptions {
  zipLimits: ZipLimits;
  /** Contents of up to this size, unpacked, are verified. Those of larger zips are verified when the job is dispatched. */
  maxVerifiedBytes: number;
}

type FindScriptError = (firstPart: string, hasMore: boolean) => string | null;

/** A job starts in `startFolder`: '' for the top of the zip, or the name of its top folder. */
export interface CheckedInput {
  unpackedBytes: number;
  startFolder: string;
}

/**
 * Checks the zip of a submission, or that the job needs none. Throws `invalid_zip`, `start_file_missing`, or, if
 * `findScriptError` finds one in the first part of the script, `invalid_payload`.
 */
export type CheckInput = (
  request: InputRequest,
  zip: ZipSource | null,
  findScriptError: FindScriptError | null,
) => Promise<CheckedInput>;

/** Returns a function that checks the zips of jobs. The server and the users' command line both use it. */
export function createInputCheck({ zipLimits, maxVerifiedBytes }: InputCheckOptions): CheckInput {
  const checks = createSlots({ total: maxConcurrentChecks });
  return async (request, source, findScriptError) => {
    if (source === null) {
      const startFile = startFileOf(request);
      if (startFile !== null) throw missingStartFile(request, startFile, null);
      return { unpackedBytes: 0, startFolder: '' };
    }
    const check = () => withZip(source, zipLimits, (zip) => checkZip(zip, request, findScriptError, maxVerifiedBytes));
    return await (source.kind === 'file' ? checks.run(check) : check());
  };
}

async function checkZip(
  zip: CheckedZip,
  request: InputRequest,
  findScriptError: FindScriptError | null,
  maxVerifiedBytes: number,
): Promise<CheckedInput> {
  const { entries, unpackedBytes } = zip;
  const startFile = startFileOf(request);
  const { topFolder, start, ...contents } = readLayout(entries, startFile);
  const script = findScriptError === null ? undefined : start?.entry;
  const scriptBytes = await readFiles(zip, unpackedBytes <= maxVerifiedBytes, script);
  if (startFile === null) {
    const startFolder = topFolder === null ? '' : chooseStartFolder(request.command, topFolder);
    return { unpackedBytes, startFolder };
  }
  if (start === null) throw missingStartFile(request, startFile, contents);
  if (findScriptError !== null) requireValidScript(startFile, scriptBytes, findScriptError);
  return { unpackedBytes, startFolder: start.folder };
}

/** Verifies the files of a zip, and reads each once. Returns the start of the script, which is read in any case. */
async function readFiles(zip: CheckedZip, isVerified: boolean, script: ZipEntry | undefined): Promise<Buffer> {
  let firstBytes: Buffer = Buffer.alloc(0);
  for (const entry of zip.entries) {
    if (entry.kind === 'folder' || !(isVerified || entry === script)) continue;
    const start = await readStart(zip, entry, entry === script ? maxStartBytes : 0, isVerified);
    if (entry === script) firstBytes = start;
  }
  return firstBytes;
}

function requireValidScript(name: string, firstBytes: Buffer, findScriptError: FindScriptError): void {
  const hasMore = firstBytes.length >= maxStartBytes;
  const problem = findScriptError(firstBytes.toString('utf8'), hasMore);
  if (problem === null) return;
  const fields = [{ field: 'command', message: `${name}: ${problem}` }];
  throw new BursarError('invalid_payload', `The script ${name} is not valid: ${problem}.`, { fields });
}

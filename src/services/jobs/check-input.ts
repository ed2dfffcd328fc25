import type { JobRequest } from '../../domain/jobs/job.ts';
import { createSlots } from '../../domain/slots.ts';
import { type CheckedInput, checkInput, type InputCheckOptions } from '../../files/zip/check-input.ts';
import type { ZipSource } from '../../files/zip/zip-source.ts';

/** Zips in files are checked by so few at a time: unpacking takes CPU time, and a long directory takes memory. */
const maxConcurrentChecks = 2;

export type CheckInput = (request: JobRequest, zip: ZipSource | null) => Promise<CheckedInput>;

/** Returns a function that checks the zip of a submission by the rules of `files/zip/check-input.ts`. */
export function createInputCheck(options: InputCheckOptions): CheckInput {
  const checks = createSlots({ total: maxConcurrentChecks });
  return async (request, zip) => {
    const batchJob = request.command.kind === 'script' ? request : null;
    const check = () => checkInput(request, zip, { ...options, batchJob });
    return await (zip?.kind === 'file' ? checks.run(check) : check());
  };
}

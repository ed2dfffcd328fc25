import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { toPrintable } from './zip-errors.ts';

/** The part of a job request that says which input files the job needs. */
export type InputRequest = Pick<JobRequest, 'command' | 'tool' | 'entry'>;

/** The files of an input, for the message. */
interface Contents {
  fileCount: number;
  /** The first ones. */
  fileNames: readonly string[];
}

export function missingStartFile({ tool }: InputRequest, name: string, input: Contents | null): BursarError {
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

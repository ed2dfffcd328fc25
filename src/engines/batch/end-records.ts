import { constants } from 'node:os';
import { chunks } from '../../domain/chunks.ts';
import { BursarError } from '../../domain/errors.ts';
import type { EndRecord } from '../../domain/jobs/end-record.ts';
import type { WorkspacePaths } from '../../files/workspaces/workspaces.ts';
import { outcomeForShellExitCode } from '../exit-outcome.ts';
import { type RunCommand, requireOutput, unavailableError } from './run-command.ts';
import { readShellProgram } from './shell-program.ts';

/** A command has a time limit, and a shared file system can be slow. */
const maxJobsPerCommand = 1000;

const readRecordsProgram = readShellProgram('read-end-records.sh', import.meta.url);
const preventStartsProgram = readShellProgram('prevent-starts.sh', import.meta.url);

/**
 * Reads what the wrappers of jobs wrote, in few commands for any number of jobs. `jobs` maps job ids to workspaces. A job
 * that is absent from the result has a workspace that cannot be read.
 */
export async function readEndRecords(
  run: RunCommand,
  jobs: ReadonlyMap<string, WorkspacePaths>,
  signal: AbortSignal,
): Promise<Map<string, EndRecord>> {
  const directories = [...jobs.values()].map(({ directory }) => directory);
  const lines = await runForEach(run, readRecordsProgram, directories, signal);
  const records = [...jobs.keys()].flatMap((jobId, index) => {
    const line = lines[index] ?? 'unknown';
    return line === 'unknown' ? [] : [[jobId, parseRecord(line)] as const];
  });
  return new Map(records);
}

/** Prevents the start of jobs, in few commands for any number of jobs. Returns the folders of those that have not started. */
export async function preventStarts(
  run: RunCommand,
  directories: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  const lines = await runForEach(run, preventStartsProgram, directories, signal);
  const failed = directories.find((_, index) => lines[index] === 'failed');
  if (failed !== undefined) {
    const message = `the start of the job cannot be prevented: ${failed} cannot be written`;
    throw new BursarError('unavailable', message, { transient: true });
  }
  return new Set(directories.filter((_, index) => lines[index] === 'prevented'));
}

/** Runs a program of bash that reads directories, in few commands for any number of them. Returns the line that it prints for each. */
async function runForEach(
  run: RunCommand,
  program: string,
  directories: readonly string[],
  signal: AbortSignal,
): Promise<string[]> {
  const lines: string[] = [];
  for (const chunk of chunks(directories, maxJobsPerCommand)) {
    const stdin = chunk.map((directory) => `${directory}\0`).join('');
    // --norc: see `createRunCommand`.
    const result = await run({ argv: ['bash', '--norc', '-c', program], stdin }, signal);
    const output = requireOutput('bash', result).trimEnd().split('\n');
    if (output.length < chunk.length) throw unavailableError('bash', result);
    // A start-up file may have printed something before.
    lines.push(...output.slice(-chunk.length));
  }
  return lines;
}

/** An end record that cannot be parsed counts as absent: a power cut can leave an empty file. */
function parseRecord(text: string): EndRecord {
  if (text === 'never_started' || text === 'not_ended') return text;
  const [code, startedAt, endedAt, writtenAt] =
    /^end (\d{1,3}) (\d{1,10}) (\d{1,10}) (\d{1,10})$/.exec(text)?.slice(1).map(Number) ?? [];
  if (code === undefined || startedAt === undefined || endedAt === undefined || writtenAt === undefined)
    return 'not_ended';
  return {
    ...outcomeForShellExitCode(code),
    wasTerminated: terminationCodes.includes(code),
    startedAt: startedAt * 1000,
    endedAt: Math.max(startedAt, endedAt) * 1000,
    elapsedSeconds: Math.max(1, endedAt - startedAt),
    writtenAt: writtenAt * 1000,
  };
}

/** Schedulers stop jobs by SIGTERM, and then by SIGKILL. */
const terminationCodes = [128 + constants.signals.SIGTERM, 128 + constants.signals.SIGKILL];

import { BursarError } from '../../domain/errors.ts';
import type { RunResult } from '../../shell/shell.ts';
import { type BatchCommand, requireOutput } from '../batch/run-command.ts';
import { parseElapsed, parseExit, parseOptionalText, parseTime, type SlurmJob } from './slurm-job.ts';

const fields = [
  // First, so that `withoutTimeUsed` can cut it off: the only field that changes while a job waits or runs.
  'TimeUsed',
  'JobID',
  'State',
  'Reason',
  'exit_code',
  'StartTime',
  'EndTime',
  'NodeList',
  'NumNodes',
  'NumCPUs',
  // Last: the names of other users' jobs may contain the separator.
  'Name',
];
const format = fields.map((field) => `${field}:|`).join(',');

/** Lists the jobs of the service account, including those that ended less than MinJobAge ago. */
export function squeueCommand(): BatchCommand {
  return { argv: ['squeue', '--me', '-h', '-t', 'all', '-O', format] };
}

/** Lists the jobs that have these ids now, of any user. */
export function squeueByIdCommand(refs: readonly string[]): BatchCommand {
  return { argv: ['squeue', '-h', '-t', 'all', '-O', format, '-j', refs.join(',')] };
}

/** squeue fails with `Invalid job id` if the only requested job does not exist. */
export function parseSqueueById(result: RunResult): SlurmJob[] {
  if (result.code === 1 && /invalid job id/i.test(result.stderr)) return [];
  return parseSqueue(requireOutput('squeue', result));
}

export function parseSqueue(output: string): SlurmJob[] {
  return output.split('\n').flatMap((line) => parseSqueueLine(line) ?? []);
}

/**
 * Returns null for a line that is not a job. Throws a transient error for an exit in an unknown format: read as an exit code of 0,
 * it would charge jobs that never ran.
 */
export function parseSqueueLine(line: string): SlurmJob | null {
  const [elapsed, ref, state, reason, exitText, start, end, nodeList, nodes, cores, ...name] = line.split('|');
  if (ref === undefined || !/^\d+$/.test(ref) || state === undefined || cores === undefined) return null;
  const exit = parseExit(exitText ?? '');
  if (exit === null) {
    const message = `squeue prints the exit code of job ${ref} as ${JSON.stringify(exitText)}, which Bursar cannot read`;
    throw new BursarError('unavailable', message, { transient: true });
  }
  return {
    ref,
    name: name.join('|').replace(/\|\s*$/, ''),
    state,
    reason: parseOptionalText(reason ?? ''),
    exit,
    // The wrapper never exits with 0 after SIGTERM.
    isExitMissing: state === 'TIMEOUT' && exit.code === 0 && exit.signal === 0,
    startedAt: parseTime(start ?? ''),
    endedAt: parseTime(end ?? ''),
    elapsedSeconds: parseElapsed(elapsed ?? ''),
    nodeList: parseOptionalText(nodeList ?? ''),
    nodes: Number(nodes),
    cores: Number(cores),
  };
}

/** Cuts off the elapsed time, which matters only once the job has finished. */
export const withoutTimeUsed = (line: string) => line.slice(line.indexOf('|'));

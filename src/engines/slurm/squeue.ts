import type { RunResult } from '../../shell/shell.ts';
import { requireOutput, type SlurmCommand } from './commands.ts';
import { decodeWaitStatus, parseElapsed, parseText, parseTime, type SlurmJob } from './slurm-job.ts';

const fields = [
  // The first one: it changes from look to look, and nothing else of a line does while a job waits or runs.
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
  // The last one: other people's names may hold anything.
  'Name',
];

/** Lists the jobs of the service account, those that have ended a short while ago too. */
export function squeueCommand(): SlurmCommand {
  const format = fields.map((field) => `${field}:|`).join(',');
  return { argv: ['squeue', '--me', '-h', '-t', 'all', '-O', format] };
}

/** The jobs that have these ids now, whosever they are. */
export function squeueByIdCommand(refs: readonly string[]): SlurmCommand {
  const format = fields.map((field) => `${field}:|`).join(',');
  return { argv: ['squeue', '-h', '-t', 'all', '-O', format, '-j', refs.join(',')] };
}

/** Asked for one job alone, squeue calls it an error that there is none. */
export function parseSqueueById(result: RunResult): SlurmJob[] {
  if (result.code === 1 && /invalid job id/i.test(result.stderr)) return [];
  return parseSqueue(requireOutput('squeue', result));
}

export function parseSqueue(output: string): SlurmJob[] {
  return output.split('\n').flatMap((line) => parseSqueueLine(line) ?? []);
}

/** A line that is not understood tells nothing. */
export function parseSqueueLine(line: string): SlurmJob | null {
  const [used, ref, state, reason, status, start, end, nodeList, nodes, cores, ...name] = line.split('|');
  if (ref === undefined || !/^\d+$/.test(ref) || state === undefined || cores === undefined) return null;
  return {
    ref,
    name: name.join('|').replace(/\|\s*$/, ''),
    state,
    reason: parseText(reason ?? ''),
    exit: decodeWaitStatus(Number(status)),
    startedAt: parseTime(start ?? ''),
    endedAt: parseTime(end ?? ''),
    elapsedSeconds: parseElapsed(used ?? ''),
    nodeList: parseText(nodeList ?? ''),
    nodes: Number(nodes),
    cores: Number(cores),
  };
}

/** What a line says, but for the time that its job has used so far: that is of interest only when the job is over. */
export const withoutTimeUsed = (line: string) => line.slice(line.indexOf('|'));

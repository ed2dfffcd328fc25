import type { RunResult } from '../../shell/shell.ts';
import { outputOf, type SlurmCommand } from './commands.ts';
import { exitOfStatus, parseElapsed, parseText, parseTime, type SlurmJob } from './slurm-job.ts';

const fields = [
  'JobID',
  'State',
  'Reason',
  'exit_code',
  'StartTime',
  'EndTime',
  'TimeUsed',
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
  return parseSqueue(outputOf('squeue', result));
}

/** A line that is not understood tells nothing. */
export function parseSqueue(output: string): SlurmJob[] {
  return output.split('\n').flatMap((line) => {
    const [ref, state, reason, status, start, end, used, nodeList, nodes, cores, ...name] = line.split('|');
    if (ref === undefined || !/^\d+$/.test(ref) || state === undefined || cores === undefined) return [];
    return {
      ref,
      name: name.join('|').replace(/\|\s*$/, ''),
      state,
      reason: parseText(reason ?? ''),
      exit: exitOfStatus(Number(status)),
      startedAt: parseTime(start ?? ''),
      endedAt: parseTime(end ?? ''),
      elapsedSeconds: parseElapsed(used ?? ''),
      nodeList: parseText(nodeList ?? ''),
      nodes: Number(nodes),
      cores: Number(cores),
    };
  });
}

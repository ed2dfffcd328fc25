import { BursarError } from '../../domain/errors.ts';
import { refusalExitCode } from '../../domain/jobs/end-record.ts';
import type { RunResult } from '../../shell/shell.ts';
import { type BatchCommand, isJobName, requireOutput } from '../batch/run-command.ts';
import type { BatchJob } from '../batch/scheduler.ts';
import { toObservation } from './observation.ts';
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

/**
 * Parses the output of successive squeue calls, with a cache by line. Most lines of a long queue are unchanged between
 * two polls, and an entry depends on nothing but its line.
 */
export function createQueueReader(now: () => number): (output: string) => BatchJob[] {
  const cache = new Map<string, BatchJob | null>();

  function parseEntry(line: string): BatchJob | null {
    const job = parseSqueueLine(line);
    const entry = job !== null && isJobName(job.name) ? toBatchJob(job, now()) : null;
    cache.set(withoutTimeUsed(line), entry);
    return entry;
  }

  return (output) => {
    const lines = output.split('\n');
    // At this size most of the cache is stale. Clearing it is cheaper than searching for stale lines at each poll.
    if (cache.size > 2 * lines.length) cache.clear();
    const entries: BatchJob[] = [];
    for (const line of lines) {
      const cached = cache.get(withoutTimeUsed(line));
      const entry = cached === undefined ? parseEntry(copyString(line)) : cached;
      if (entry !== null) entries.push(entry);
    }
    return entries;
  };
}

function toBatchJob(job: SlurmJob, now: number): BatchJob {
  const { ref, name, state, reason } = job;
  return {
    ref,
    name,
    observation: toObservation(job, now),
    isHeld: state === 'PENDING' && reason === 'JobHeldUser',
    wasCancelledHeld: state === 'CANCELLED' && reason === 'JobHeldUser',
    mayBeRefused: mayBeRefused(job),
  };
}

/**
 * A killed controller gives the ids of forgotten jobs again. A node that still knows the old job of the id refuses to start
 * the new one. Slurm then cancels the new one, or reports an exit code if the node has just killed the old one.
 */
function mayBeRefused({ state, exit, nodeList }: SlurmJob): boolean {
  if (nodeList === '') return false;
  return state === 'CANCELLED' || (state === 'FAILED' && exit.notRun === undefined && exit.code === refusalExitCode);
}

/** V8 substrings keep the whole string alive: one cached line would keep the output of all jobs in memory. */
const copyString = (text: string) => Buffer.from(text).toString();

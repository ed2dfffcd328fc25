import type { BatchCommand } from '../batch/run-command.ts';
import { parseExit, parseOptionalText, parseTime, type SlurmJob } from './slurm-job.ts';

/**
 * Source for jobs that have left the queue: slurmdbd (`sacct`); the file of the jobcomp/filetxt plugin, which must be
 * readable where the commands run and has times in the controller's zone (`completion`); or none.
 */
export type Accounting = 'sacct' | 'completion' | 'none';

const fields = 'JobID,State,ExitCode,Start,End,ElapsedRaw,NodeList,NNodes,AllocCPUS,JobName';

/** All final states, by their short names: not every version accepts the long names here. */
const finalStates = 'BF,CA,CD,DL,F,NF,OOM,PR,RV,TO';

/**
 * Lists the jobs that have ended. sacct omits a job that was cancelled while held, unless both a time window and
 * the states are given. After a crash of the controller two jobs can have the same id: `-D` lists both.
 */
export function sacctCommand(refs: readonly string[], source: Exclude<Accounting, 'none'>): BatchCommand {
  const common = ['-n', '-P', '-X', '-o', fields, '-j', refs.join(',')];
  if (source === 'completion') return { argv: ['sacct', '-c', ...common] };
  return { argv: ['sacct', '-D', '-S', '2000-01-01', '-E', 'now', '-s', finalStates, ...common] };
}

/** Skips lines that are not jobs, or that have no exit code. */
export function parseSacct(output: string): SlurmJob[] {
  return output.split('\n').flatMap((line) => {
    const [ref, state, exitText, start, end, elapsed, nodeList, nodes, cores, ...name] = line.split('|');
    if (ref === undefined || !/^\d+$/.test(ref) || state === undefined || cores === undefined) return [];
    const exit = parseExit(exitText ?? '');
    if (exit === null) return [];
    return {
      ref,
      name: name.join('|'),
      state,
      reason: '',
      exit,
      // Unknown: slurmctld sends the end of such a job to slurmdbd before the nodes report its exit.
      isExitMissing: false,
      startedAt: parseTime(start ?? ''),
      endedAt: parseTime(end ?? ''),
      elapsedSeconds: Number(elapsed) || 0,
      nodeList: parseOptionalText(nodeList ?? ''),
      nodes: Number(nodes),
      cores: Number(cores),
    };
  });
}

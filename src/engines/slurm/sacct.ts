import type { SlurmCommand } from './commands.ts';
import { parseSacctExitCode, parseText, parseTime, type SlurmJob } from './slurm-job.ts';

/**
 * Whom to ask about jobs that have left the queue: slurmdbd (`sacct`), the file of the plugin jobcomp/filetxt, which must
 * be readable here and is written in the controller's zone (`completion`), or nobody.
 */
export type Accounting = 'sacct' | 'completion' | 'none';

const fields = 'JobID,State,ExitCode,Start,End,ElapsedRaw,NodeList,NNodes,AllocCPUS,JobName';

/** All ends. `CD` and so on, because not every version knows the long names here. */
const ended = 'BF,CA,CD,DL,F,NF,OOM,PR,RV,TO';

/**
 * Lists those of the jobs that have ended. A job that was cancelled while it was held is told only to who names both
 * the window and the states. After a crash of the controller two jobs can have had one id: both are listed.
 */
export function sacctCommand(refs: readonly string[], source: Exclude<Accounting, 'none'>): SlurmCommand {
  const common = ['-n', '-P', '-X', '-o', fields, '-j', refs.join(',')];
  if (source === 'completion') return { argv: ['sacct', '-c', ...common] };
  return { argv: ['sacct', '-D', '-S', '2000-01-01', '-E', 'now', '-s', ended, ...common] };
}

/** A line that is not understood tells nothing. */
export function parseSacct(output: string): SlurmJob[] {
  return output.split('\n').flatMap((line) => {
    const [ref, state, exit, start, end, elapsed, nodeList, nodes, cores, ...name] = line.split('|');
    if (ref === undefined || !/^\d+$/.test(ref) || state === undefined || cores === undefined) return [];
    return {
      ref,
      name: name.join('|'),
      state,
      reason: '',
      exit: parseSacctExitCode(exit ?? ''),
      startedAt: parseTime(start ?? ''),
      endedAt: parseTime(end ?? ''),
      elapsedSeconds: Number(elapsed) || 0,
      nodeList: parseText(nodeList ?? ''),
      nodes: Number(nodes),
      cores: Number(cores),
    };
  });
}

/** A run of a job, in seconds since 1970. */
interface Run {
  start: number;
  end: number;
}

/** Reads the completion file of Slurm: the runs of each job by its name. A job that Slurm has forgotten is missing. */
export function parseCompletions(text: string): Map<string, Run[]> {
  const runs = new Map<string, Run[]>();
  for (const line of text.split('\n')) {
    const [, name = '', start = '', end = ''] = / Name=(\S+) .* StartTime=(\S+) EndTime=(\S+) /.exec(line) ?? [];
    const run = { start: Date.parse(start) / 1000, end: Date.parse(end) / 1000 };
    // A job that was cancelled in the queue has no start.
    if (Number.isFinite(run.start) && Number.isFinite(run.end)) runs.set(name, [...(runs.get(name) ?? []), run]);
  }
  return runs;
}

/**
 * How long Slurm held cores for a job: until its wrapper wrote the end record, or else until the end that Slurm reported.
 * That is longer than its script ran by the time that Slurm, the wrapper and the sandbox need, on a busy machine many seconds.
 */
export function countHeldSeconds(runs: readonly Run[], recordWrittenAt: number | null): number {
  const isRun = ({ start }: Run) => recordWrittenAt === null || start <= recordWrittenAt;
  const run = runs.findLast(isRun);
  return run === undefined ? 0 : (recordWrittenAt ?? run.end) - run.start;
}

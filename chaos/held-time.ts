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

/** The wrapper's record of a run: when it started, and when it wrote the end record. */
export interface WrapperRecord {
  startedAt: number;
  writtenAt: number;
}

/** Reads the text of an end record: exit code, start and end. */
export function parseWrapperRecord(text: string, writtenAt: number): WrapperRecord {
  return { startedAt: Number(text.split(' ')[1]), writtenAt };
}

/**
 * How long Slurm held cores for a job: until its wrapper wrote the end record, or else until the end that Slurm reported.
 * That is longer than its script ran by the time that Slurm, the wrapper and the sandbox need, on a busy machine many seconds.
 * Of a job that Slurm has forgotten, only the wrapper's time is known.
 */
export function countHeldSeconds(runs: readonly Run[], record: WrapperRecord | null): number {
  const run = runs.findLast(({ start }) => record === null || start <= record.writtenAt);
  if (record === null) return run === undefined ? 0 : run.end - run.start;
  return record.writtenAt - (run?.start ?? record.startedAt);
}

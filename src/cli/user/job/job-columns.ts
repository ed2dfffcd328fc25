import type { Job } from '#client';
import type { Colour } from '../terminal/style.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

const minIdLength = 8;

export function stageColour({ failed, terminal_stage: hasEnded }: Job): Colour {
  if (failed) return 'red';
  return hasEnded ? 'green' : 'yellow';
}

/** The shortest beginnings of the ids, of at least eight characters, that differ among the jobs. */
export function shortIds(jobs: readonly Job[]): Map<string, string> {
  const sorted = jobs.map((job) => job.job_id).toSorted();
  const common = (a: string, b: string | undefined) => {
    let length = 0;
    while (b !== undefined && length < a.length && a[length] === b[length]) length++;
    return length;
  };
  return new Map(
    sorted.map((id, index) => {
      const needed = Math.max(common(id, sorted[index - 1]), common(id, sorted[index + 1])) + 1;
      return [id, id.slice(0, Math.max(minIdLength, needed))];
    }),
  );
}

/** The columns of a list of jobs. A terminal gets short ids and relative times, a pipe the whole ones. */
export function jobColumns(jobs: readonly Job[], now: () => number, options: { owner?: boolean } = {}): Column<Job>[] {
  const ids = shortIds(jobs);
  return [
    { title: 'Job', value: (job) => ids.get(job.job_id) ?? job.job_id, plain: (job) => job.job_id },
    { title: 'Stage', value: (job) => job.stage, colour: stageColour },
    { title: 'Title', value: (job) => job.title, flexible: true },
    ...(options.owner ? [{ title: 'Owner', value: (job: Job) => job.owner }] : []),
    { title: 'System', value: (job) => job.project_hpc.toLowerCase() },
    { title: 'Project', value: (job) => job.project_name, flexible: true },
    { title: 'Submitted', value: (job) => relativeTime(job.init_date, now()), plain: (job) => job.init_date },
    {
      title: 'Ended',
      value: (job) => (job.end_date === null ? '' : relativeTime(job.end_date, now())),
      plain: (job) => job.end_date ?? '',
    },
  ];
}

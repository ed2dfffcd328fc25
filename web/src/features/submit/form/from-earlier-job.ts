import type { Timeline } from '@bursar/client';
import { quoteWord } from '../../../../../src/domain/jobs/command.ts';
import { formatHours } from './runtime-text.ts';
import { emptyValues, type SubmitValues } from './values.ts';

interface EarlierJob {
  hpc: string;
  project: string;
  timeline: Timeline;
}

/** The form with the request of an earlier job. */
export function fromEarlierJob(from: string, { hpc, project, timeline }: EarlierJob): SubmitValues {
  const { job, tags, request } = timeline;
  const params = Object.entries(request.params ?? {}).map(([name, value]) => [name, toText(value)]);
  return {
    ...emptyValues,
    from,
    hpc,
    project,
    title: job.title,
    tags: tags.join(' '),
    command: request.command ?? '',
    tool: request.tool ?? '',
    nodes: String(request.nodes),
    cores: String(request.cores_per_node),
    runtime: formatHours(request.runtime),
    params: Object.fromEntries(params),
  };
}

/** Words are typed with spaces between them. A word with special characters needs quotes, as in a shell. */
function toText(value: string | readonly string[]): string {
  if (typeof value === 'string') return value;
  return value.map(quoteWord).join(' ');
}

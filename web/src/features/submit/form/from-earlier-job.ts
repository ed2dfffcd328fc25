import type { Job, Timeline } from '@bursar/client';
import { formatHours } from './runtime-text.ts';
import { emptyValues, type SubmitValues } from './values.ts';

interface EarlierJob {
  hpc: string;
  project: string;
  job: Job;
  timeline: Timeline;
}

interface EarlierRequest {
  command: string | null;
  tool: string | null;
  nodes: number;
  cores_per_node: number;
  runtime: number;
  params: Record<string, unknown>;
}

/** The form with the request of an earlier job. */
export function fromEarlierJob(from: string, { hpc, project, job, timeline }: EarlierJob): SubmitValues {
  const { request } = timeline as Timeline & { request?: EarlierRequest };
  const start = { ...emptyValues, from, hpc, project, title: job.title, runtime: formatHours(job.runtime) };
  if (request === undefined) return start;
  return {
    ...start,
    command: request.command ?? '',
    tool: request.tool ?? '',
    nodes: String(request.nodes),
    cores: String(request.cores_per_node),
    runtime: formatHours(request.runtime),
    params: Object.fromEntries(Object.entries(request.params).map(([name, value]) => [name, toText(value)])),
  };
}

const toText = (value: unknown) => (Array.isArray(value) ? value.join(' ') : String(value));

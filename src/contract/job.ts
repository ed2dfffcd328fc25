import Type, { type Static } from 'typebox';
import {
  isFailure,
  isTerminal,
  type JobRequest,
  type JobStatus,
  type Outcome,
  outcomes,
  type StageNames,
  toStage,
} from '../domain/jobs/job.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { createJsonWriter, namedObject, nullable, stage, time, toIsoTimeOrNull } from './fields.ts';

export const OutcomeSchema = Type.Enum([...outcomes], {
  $id: 'Outcome',
  description: 'How a job ended. Several outcomes share one stage.',
});

const secondsTimestamp = {
  format: 'date-time',
  pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$',
  examples: ['2026-01-31T12:00:00Z'],
};

/** The public Job object. The API contract (2.2) allows exactly these fields. */
export const JobSchema = namedObject(
  'Job',
  {
    id: Type.Integer({ description: 'Internal record number of the job.' }),
    job_id: Type.String({ description: 'Identifier of the job on the HPC system.' }),
    owner: Type.String({ pattern: '^\\d+$', description: 'User identifier of the submitter.' }),
    project: Type.Integer({ description: 'Record number of the project.' }),
    project_hpc: Type.String({ description: 'The HPC system, in upper case.', examples: ['HPC_ONE'] }),
    project_name: Type.String(),
    title: Type.String(),
    runtime: Type.Number({ description: 'Hours of wall-clock time granted.' }),
    stage,
    terminal_stage: Type.Boolean({ description: 'True when the stage is final.' }),
    failed: Type.Boolean({ description: 'True for every outcome except success and cancellation by the owner.' }),
    init_date: Type.String({ ...secondsTimestamp, description: 'Submission time, UTC.' }),
    end_date: nullable(Type.String(secondsTimestamp), 'End time, UTC; null until the job has ended.'),
  },
  {
    id: 1,
    job_id: '7B0E5A52-3C1F-4B9D-9A57-0F2B4E6C8D10',
    owner: '301330',
    project: 1,
    project_name: 'proj_hpc_one_01',
    title: 'First job',
    runtime: 0.1,
    stage: 'QUEUED',
  },
);

export interface JobFields {
  id: number;
  jobId: string;
  owner: string;
  project: { id: number; hpc: string; name: string };
  request: Pick<JobRequest, 'title' | 'runtimeHours'>;
  status: JobStatus;
  acceptedAt: number;
}

const writeJob = createJsonWriter(JobSchema);

/** The public JSON of a job, and the fields that lists filter by. */
export interface PublicJob {
  json: string;
  title: string;
  stage: string;
  isTerminal: boolean;
  isFailure: boolean;
}

/** The result is stored in the job's row at every change, so that reads need not format it. */
export function publicJob(job: JobFields, stageNames: StageNames): PublicJob {
  const { status } = job;
  const { title } = job.request;
  const end = status.state === 'ended' || status.state === 'deleted' ? status : null;
  const stage = toStage(status, stageNames);
  const failed = end !== null && isFailure(end.outcome);
  const json = writeJob({
    id: job.id,
    job_id: job.jobId,
    owner: job.owner,
    project: job.project.id,
    project_hpc: publicSystemName(job.project.hpc),
    project_name: job.project.name,
    title,
    runtime: job.request.runtimeHours,
    stage,
    terminal_stage: isTerminal(status.state),
    failed,
    init_date: toUtcSeconds(job.acceptedAt),
    end_date: end === null ? null : toUtcSeconds(end.endedAt),
  });
  return { json, title, stage, isTerminal: isTerminal(status.state), isFailure: failed };
}

/** The path of a job, from its public JSON. System names are in lower case in paths. */
export function toJobPath(json: string): string {
  const { project_hpc, project_name, job_id } = JSON.parse(json) as Static<typeof JobSchema>;
  return `/jobs/${project_hpc.toLowerCase()}/${project_name}/${job_id}/`;
}

/** `YYYY-MM-DDThh:mm:ssZ`, the time format of the Job object. */
function toUtcSeconds(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}

/** A job with the fields that a table of jobs shows besides. */
export const JobSummarySchema = namedObject(
  'JobSummary',
  {
    job: JobSchema,
    tags: Type.Array(Type.String(), { description: 'The tags of the job.' }),
    nodes: Type.Integer({ description: 'Number of nodes.' }),
    cores_per_node: Type.Integer({ description: 'Number of cores on each node.' }),
    started_at: nullable(time, 'When the job started; null if it has not started.'),
    outcome: nullable(OutcomeSchema),
    charged_seconds: nullable(Type.Integer(), 'Charged seconds, minus refunds; null until the job has ended.'),
  },
  { tags: ['sweep-17'], nodes: 1, cores_per_node: 4 },
);

export const JobSummaryPageSchema = namedObject(
  'JobSummaryPage',
  {
    jobs: Type.Array(JobSummarySchema, { description: 'Newest first.' }),
    next: nullable(Type.String(), 'Pass it as `cursor` to get the next page, of older jobs; null on the last page.'),
  },
  { next: 'YmVmb3JlOjE' },
);

export interface JobSummaryFields {
  publicJson: string;
  tags: readonly string[];
  nodes: number;
  coresPerNode: number;
  startedAt: number | null;
  outcome: Outcome | null;
  chargedSeconds: number | null;
}

/** Formats one summary. The public JSON of the job is copied, because its floats have a fraction. */
export function toJobSummaryJson(summary: JobSummaryFields): string {
  const rest: Omit<Static<typeof JobSummarySchema>, 'job'> = {
    tags: [...summary.tags],
    nodes: summary.nodes,
    cores_per_node: summary.coresPerNode,
    started_at: toIsoTimeOrNull(summary.startedAt),
    outcome: summary.outcome,
    charged_seconds: summary.chargedSeconds,
  };
  return `{"job":${summary.publicJson},${JSON.stringify(rest).slice(1)}`;
}

export function toJobSummaryPageJson(jobs: readonly JobSummaryFields[], next: string | null): string {
  return `{"jobs":[${jobs.map(toJobSummaryJson).join(',')}],"next":${JSON.stringify(next)}}`;
}

/** The fields that identify a job in the data of its events. */
export function toJobReference({ jobId, project }: { jobId: string; project: { hpc: string; name: string } }) {
  return { hpc: project.hpc, project_name: project.name, job_id: jobId };
}

import Type, { type Static } from 'typebox';
import { isFailure, isTerminal, type JobRequest, type JobStatus } from '../domain/jobs/job.ts';
import { type StageNames, toStage } from '../domain/jobs/stage.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { createJsonWriter } from './json-format.ts';

const timestamp = { pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$', examples: ['2026-01-31T12:00:00Z'] };

/** The Job object of the interface (2.2): exactly these fields, whatever else Bursar knows of a job. */
export const JobSchema = Type.Object(
  {
    id: Type.Integer({ description: 'Internal record number of the job.' }),
    job_id: Type.String({ description: 'Identifier of the job on the HPC system.' }),
    owner: Type.String({ pattern: '^\\d+$', description: 'User identifier of the submitter.' }),
    project: Type.Integer({ description: 'Record number of the project.' }),
    project_hpc: Type.String({ description: 'The HPC system, in upper case.', examples: ['HPC_ONE'] }),
    project_name: Type.String(),
    title: Type.String(),
    runtime: Type.Number({ description: 'Hours of wall-clock time granted.' }),
    stage: Type.String({ description: "Where the job stands, in the system's own words.", examples: ['QUEUED'] }),
    terminal_stage: Type.Boolean({ description: 'True when the stage is final.' }),
    failed: Type.Boolean({ description: 'True for every end but success and cancellation by the owner.' }),
    init_date: Type.String({ ...timestamp, description: 'When it was submitted, UTC.' }),
    end_date: Type.Union([Type.String(timestamp), Type.Null()], { description: 'When it ended, UTC.' }),
  },
  { $id: 'Job', additionalProperties: false },
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

/** The public JSON of a job, and what of it lists are filtered by. */
export interface PublicJob {
  json: string;
  title: string;
  stage: string;
  isTerminal: boolean;
  isFailure: boolean;
}

/** What callers see of a job: stored with the job whenever it changes, so that reading it copies bytes. */
export function publicJob(job: JobFields, words: StageNames): PublicJob {
  const object = jobObject(job, words);
  const { title, stage, terminal_stage, failed } = object;
  return { json: writeJob(object), title, stage, isTerminal: terminal_stage, isFailure: failed };
}

export function toJobJson(job: JobFields, words: StageNames): string {
  return writeJob(jobObject(job, words));
}

function jobObject(job: JobFields, words: StageNames): Static<typeof JobSchema> {
  const { status } = job;
  const ended = status.state === 'ended' || status.state === 'deleted' ? status : null;
  return {
    id: job.id,
    job_id: job.jobId,
    owner: job.owner,
    project: job.project.id,
    project_hpc: publicSystemName(job.project.hpc),
    project_name: job.project.name,
    title: job.request.title,
    runtime: job.request.runtimeHours,
    stage: toStage(status, words),
    terminal_stage: isTerminal(status.state),
    failed: ended !== null && isFailure(ended.outcome),
    init_date: utcSeconds(job.acceptedAt),
    end_date: ended === null ? null : utcSeconds(ended.endedAt),
  };
}

/** `YYYY-MM-DDThh:mm:ssZ`, as the interface writes its times. */
function utcSeconds(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(0, 19)}Z`;
}

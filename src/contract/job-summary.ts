import Type, { type Static } from 'typebox';
import type { Outcome } from '../domain/jobs/job.ts';
import { nullable, nullableInteger, nullableString, nullableTime } from './fields.ts';
import { exampleJob, JobSchema, OutcomeSchema } from './job.ts';
import { toIsoTimeOrNull } from './json-format.ts';

const exampleSummary = {
  job: exampleJob,
  tags: ['sweep-17'],
  nodes: 1,
  cores_per_node: 4,
  started_at: null,
  outcome: null,
  charged_seconds: null,
};

/** A job with the fields that a table of jobs shows besides. */
export const JobSummarySchema = Type.Object(
  {
    job: JobSchema,
    tags: Type.Array(Type.String(), { description: 'The tags of the job.' }),
    nodes: Type.Integer({ description: 'Number of nodes.' }),
    cores_per_node: Type.Integer({ description: 'Number of cores on each node.' }),
    started_at: nullableTime('When the job started; null if it has not started.'),
    outcome: nullable(OutcomeSchema),
    charged_seconds: nullableInteger('Charged seconds, minus refunds; null until the job has ended.'),
  },
  {
    $id: 'JobSummary',
    additionalProperties: false,
    examples: [exampleSummary],
  },
);

export const JobSummaryPageSchema = Type.Object(
  {
    jobs: Type.Array(JobSummarySchema, { description: 'Newest first.' }),
    next: nullableString('Pass it as `cursor` to get the next page, of older jobs; null on the last page.'),
  },
  {
    $id: 'JobSummaryPage',
    additionalProperties: false,
    examples: [{ jobs: [exampleSummary], next: 'YmVmb3JlOjE' }],
  },
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

import Type, { type Static } from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { completeExample, namedObject, nullable, stage, time, timestamp } from './fields.ts';
import { JobSchema, OutcomeSchema } from './job.ts';

const timelineTypes = [...Object.keys(eventKinds), 'ledger.refund'];

const TimelineEntry = Type.Object(
  {
    at: timestamp,
    type: Type.Enum(timelineTypes, { description: 'Type of the event, or `ledger.refund`.' }),
    stage: nullable(stage),
    outcome: nullable(OutcomeSchema),
    reason: nullable(Type.String(), 'Reason for the outcome, or of the person who cancelled or deleted the job.'),
    by: nullable(Type.String(), 'Role of the person who cancelled or deleted the job, if that was not its owner.'),
    exit_code: nullable(Type.Integer(), 'Exit code of the job.'),
    engine_id: nullable(Type.String(), "The scheduler's own identifier of the job."),
    scheduler_message: nullable(Type.String(), "The scheduler's own description of the state."),
    held_seconds: nullable(Type.Integer(), 'Requested time, put on hold, in charged seconds.'),
    used_seconds: nullable(Type.Integer(), 'Wall-clock runtime, in seconds.'),
    charged_seconds: nullable(Type.Integer(), 'Charged seconds; negative for a refund.'),
    charge_rule: nullable(Type.String(), 'Why the job was charged or not.'),
    deletes_at: nullable(time, 'When the files of the job will be deleted.'),
  },
  { additionalProperties: false },
);

/** The request of a job as it was granted, in the words of a submission. */
export const GrantedRequestSchema = namedObject(
  'GrantedRequest',
  {
    command: nullable(Type.String(), 'The command, on batch systems.'),
    tool: nullable(Type.String(), 'The tool, on tool systems.'),
    nodes: Type.Integer({ description: 'Number of nodes.' }),
    cores_per_node: Type.Integer({ description: 'Number of cores on each node.' }),
    runtime: Type.Number({ description: 'Hours of wall-clock time granted.' }),
    params: Type.Union(
      [Type.Object({}, { additionalProperties: Type.Union([Type.String(), Type.Array(Type.String())]) }), Type.Null()],
      { description: 'The given parameters of the tool; null if they are unknown, for jobs of earlier versions.' },
    ),
  },
  { command: 'sbatch run.sh', nodes: 1, cores_per_node: 1, runtime: 0.1, params: {} },
);

/** The history of one job. */
export const TimelineSchema = namedObject(
  'Timeline',
  {
    job: JobSchema,
    tags: Type.Array(Type.String(), { description: 'The tags of the job.' }),
    request: GrantedRequestSchema,
    started_at: nullable(time, 'When the job started; null if it has not started.'),
    held_seconds: Type.Integer({ description: 'Requested time, put on hold until the end, in charged seconds.' }),
    used_seconds: nullable(Type.Integer(), 'Wall-clock runtime, in seconds; null until the job has ended.'),
    charged_seconds: nullable(Type.Integer(), 'Charged seconds, minus refunds; null until the job has ended.'),
    refunded_seconds: Type.Integer({ description: 'Charged seconds that were refunded.' }),
    space_bytes: nullable(Type.Integer(), 'Size of the files of the job, in bytes; null until the job has ended.'),
    entries: Type.Array(TimelineEntry, { description: 'Oldest first.' }),
  },
  {
    tags: ['sweep-17'],
    held_seconds: 360,
    refunded_seconds: 0,
    entries: [completeExample(TimelineEntry.properties, { type: 'job.accepted', stage: 'QUEUED', held_seconds: 360 })],
  },
);

export type TimelineEntryJson = Static<typeof TimelineEntry>;

/** Formats the public JSON of a timeline. `jobJson` is the public JSON of its job. */
export function toTimelineJson(jobJson: string, rest: Omit<Static<typeof TimelineSchema>, 'job'>): string {
  return `{"job":${jobJson},${JSON.stringify(rest).slice(1)}`;
}

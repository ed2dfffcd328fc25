import Type from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { account, namedObject, nullable, resource, stage, time, timestamp, toIsoTime } from './fields.ts';
import { JobSchema, OutcomeSchema } from './job.ts';

const kindDescriptions = Object.entries(eventKinds).map(([kind, meaning]) => `\`${kind}\`: ${meaning}`);
export const testEventType = 'webhook.test';
const optionalInteger = (description: string) => Type.Optional(nullable(Type.Integer(), description));
const optionalText = (description: string) => Type.Optional(nullable(Type.String(), description));

export const EventTypeSchema = Type.Enum([...Object.keys(eventKinds), testEventType], {
  $id: 'EventType',
  description: `${kindDescriptions.join('; ')}; \`${testEventType}\`: a test of a webhook.`,
});

/** An event, as streams, lists and webhooks send it. */
export const EventSchema = namedObject(
  'Event',
  {
    id: Type.Integer({
      description:
        'Number of the event among your events, without gaps. Pass it as `after` to get later ones. Test events have 0.',
    }),
    type: EventTypeSchema,
    at: timestamp,
    job: nullable(JobSchema, 'The job as it was at that time.'),
    data: Type.Object(
      {
        hpc: optionalText('The HPC system, as in URL paths.'),
        project_name: optionalText('Name of the project.'),
        job_id: optionalText('Identifier of the job.'),
        stage: Type.Optional(nullable(stage)),
        engine_id: optionalText("The scheduler's own identifier of the job."),
        scheduler_message: optionalText("The scheduler's own description of the state."),
        held_seconds: optionalInteger('Charged seconds on hold for the job.'),
        outcome: Type.Optional(nullable(OutcomeSchema)),
        reason: optionalText(
          'Reason for the outcome, or of the person who cancelled or deleted your job, or changed your quota.',
        ),
        by: optionalText('Role of the person who cancelled or deleted your job, if that was not you.'),
        exit_code: optionalInteger('Exit code of the job.'),
        elapsed_seconds: optionalInteger('Wall-clock runtime, in seconds.'),
        charged_seconds: optionalInteger('Charged seconds.'),
        space_bytes: optionalInteger('Size of the files of the job, in bytes.'),
        resource: Type.Optional(nullable(resource)),
        account: Type.Optional(nullable(account)),
        percent: optionalInteger('The threshold that was reached.'),
        change: Type.Optional(
          nullable(Type.Number(), 'Amount that was added to the quota, in seconds or KB; negative if it was reduced.'),
        ),
        ends_at: Type.Optional(nullable(time, 'When the grant expires.')),
        deletes_at: Type.Optional(nullable(time, 'When the files of the job will be deleted.')),
        token_id: optionalInteger('Number of the token.'),
        token_name: optionalText('Name of the token.'),
        expires_at: Type.Optional(nullable(time, 'When the token expires.')),
        webhook_id: optionalInteger('Number of the webhook.'),
        url: optionalText('URL of the webhook.'),
      },
      { additionalProperties: true, description: 'Details, depending on the type.' },
    ),
  },
  {
    id: 7,
    type: 'quota.threshold',
    data: { hpc: 'hpc_one', project_name: 'proj_hpc_one_01', resource: 'time', account: 'cap', percent: 80 },
  },
);

export const EventPageSchema = namedObject(
  'EventPage',
  {
    events: Type.Array(EventSchema, { description: 'Oldest first.' }),
    next: Type.Integer({ description: 'Pass it as `after` to get the next page.' }),
  },
  { next: 7 },
);

export interface EventFields {
  seq: number;
  kind: string;
  /** The public job at the time of the event, as JSON; null if the event concerns no job. */
  jobJson: string | null;
  /** The details as JSON. */
  data: string;
  at: number;
}

export function toEventJson({ seq, kind, jobJson, data, at }: EventFields): string {
  return `{"id":${seq},"type":${JSON.stringify(kind)},"at":"${toIsoTime(at)}","job":${jobJson ?? 'null'},"data":${data}}`;
}

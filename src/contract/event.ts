import Type from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { nullableInteger, nullableString, timestamp } from './fields.ts';
import { toIsoTime } from './json-format.ts';

const kindDescriptions = Object.entries(eventKinds).map(([kind, meaning]) => `\`${kind}\`: ${meaning}`);
const optionalInteger = (description: string) => Type.Optional(nullableInteger(description));
const optionalText = (description: string) => Type.Optional(nullableString(description));

/** An event, as streams, lists and webhooks send it. */
export const EventSchema = Type.Object(
  {
    id: Type.Integer({
      description:
        'Number of the event among your events, without gaps. Pass it as `after` to get later ones. Test events have 0.',
    }),
    type: Type.String({ description: `${kindDescriptions.join('; ')}.`, examples: ['job.ended'] }),
    at: timestamp,
    job: Type.Union([Type.Ref('Job'), Type.Null()], { description: 'The job as it was at that time.' }),
    data: Type.Object(
      {
        hpc: optionalText('The HPC system, as in URL paths.'),
        project_name: optionalText('Name of the project.'),
        job_id: optionalText('Identifier of the job.'),
        stage: optionalText('Stage of the job after the event.'),
        engine_id: optionalText("The scheduler's own identifier of the job."),
        engine_words: optionalText("The scheduler's own description of the state."),
        held_seconds: optionalInteger('Charged seconds on hold for the job.'),
        outcome: optionalText('Outcome of the job.'),
        reason: optionalText('Reason for the outcome, in one line.'),
        exit_code: optionalInteger('Exit code of the job.'),
        elapsed_seconds: optionalInteger('Wall-clock runtime, in seconds.'),
        charged_seconds: optionalInteger('Charged seconds.'),
        space_bytes: optionalInteger('Size of the files of the job, in bytes.'),
        resource: optionalText('`time` or `space`.'),
        account: optionalText('`pool`: the quota of the project. `cap`: your own quota.'),
        percent: optionalInteger('The threshold that was reached.'),
        ends_at: optionalText('When the grant expires.'),
        deletes_at: optionalText('When the files of the job will be deleted.'),
        webhook_id: optionalInteger('Number of the webhook.'),
        url: optionalText('URL of the webhook.'),
      },
      { additionalProperties: true, description: 'Details, depending on the type.' },
    ),
  },
  { $id: 'Event', additionalProperties: false },
);

export const EventPageSchema = Type.Object(
  {
    events: Type.Array(Type.Ref('Event'), { description: 'Oldest first.' }),
    next: Type.Integer({ description: 'Pass it as `after` to get the next page.' }),
  },
  { $id: 'EventPage', additionalProperties: false },
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

/** The fields that identify a job in the data of its events. */
export function toJobReference({ jobId, project }: { jobId: string; project: { hpc: string; name: string } }) {
  return { hpc: project.hpc, project_name: project.name, job_id: jobId };
}

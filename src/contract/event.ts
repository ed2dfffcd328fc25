import Type from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { toIsoTime } from './json-format.ts';

const kindList = Object.entries(eventKinds).map(([kind, meaning]) => `\`${kind}\`: ${meaning}`);
const whole = (description: string) => Type.Optional(Type.Union([Type.Integer(), Type.Null()], { description }));
const text = (description: string) => Type.Optional(Type.Union([Type.String(), Type.Null()], { description }));

/** What happened to a job or a quota, in streams, lists and webhooks alike. */
export const EventSchema = Type.Object(
  {
    id: Type.Integer({ description: 'Counts your events, without gaps: pass it on as `after`. A test has 0.' }),
    type: Type.String({ description: `${kindList.join('; ')}.`, examples: ['job.ended'] }),
    at: Type.String({ description: 'ISO 8601, UTC.', examples: ['2026-01-31T12:00:00.000Z'] }),
    job: Type.Union([Type.Ref('Job'), Type.Null()], { description: 'The job as it was then.' }),
    data: Type.Object(
      {
        hpc: text('The HPC system, as in paths.'),
        project_name: text('The project.'),
        job_id: text('The job.'),
        stage: text('The stage that the job reached.'),
        engine_id: text('The identifier that the HPC system itself gave the job.'),
        engine_words: text('What the HPC system itself says of it.'),
        held_seconds: whole('Seconds held for the job.'),
        outcome: text('How the job ended.'),
        reason: text('Why, in a line.'),
        exit_code: whole('The exit code of the job.'),
        elapsed_seconds: whole('Wall-clock seconds that the job ran.'),
        charged_seconds: whole('Seconds charged for it.'),
        space_bytes: whole('Bytes that its files take.'),
        resource: text('`time` or `space`.'),
        account: text('`pool` of the project, or your own `cap`.'),
        percent: whole('The threshold that was crossed.'),
        ends_at: text('When the grant ends.'),
        deletes_at: text('When the files of the job will be deleted.'),
        webhook_id: whole('The webhook.'),
        url: text('Where it was sent to.'),
      },
      { additionalProperties: true, description: 'What there is to say, by type.' },
    ),
  },
  { $id: 'Event', additionalProperties: false },
);

export const EventPageSchema = Type.Object(
  {
    events: Type.Array(Type.Ref('Event'), { description: 'The first one first.' }),
    next: Type.Integer({ description: 'Pass it on as `after`.' }),
  },
  { $id: 'EventPage', additionalProperties: false },
);

export interface EventFields {
  seq: number;
  kind: string;
  /** JSON texts, as they are kept. */
  jobJson: string | null;
  data: string;
  at: number;
}

/** The public JSON of an event. The job in it is the text that was stored with the job at that time. */
export function toEventJson({ seq, kind, jobJson, data, at }: EventFields): string {
  return `{"id":${seq},"type":${JSON.stringify(kind)},"at":"${toIsoTime(at)}","job":${jobJson ?? 'null'},"data":${data}}`;
}

/** What names a job in the data of its events. */
export function toJobReference({ jobId, project }: { jobId: string; project: { hpc: string; name: string } }) {
  return { hpc: project.hpc, project_name: project.name, job_id: jobId };
}

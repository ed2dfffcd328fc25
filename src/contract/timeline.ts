import Type, { type Static } from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { nullable, nullableInteger, nullableString, stage, stringReference, timestamp } from './fields.ts';
import { exampleJob } from './job.ts';

const timelineTypes = [...Object.keys(eventKinds), 'ledger.refund'];

const TimelineEntry = Type.Object(
  {
    at: timestamp,
    type: Type.Enum(timelineTypes, { description: 'Type of the event, or `ledger.refund`.' }),
    stage: nullable(stage),
    outcome: nullable(stringReference('Outcome')),
    reason: nullableString('Reason for the outcome, or of the person who cancelled or deleted the job.'),
    by: nullableString('Role of the person who cancelled or deleted the job, if that was not its owner.'),
    exit_code: nullableInteger('Exit code of the job.'),
    engine_id: nullableString("The scheduler's own identifier of the job."),
    engine_words: nullableString("The scheduler's own description of the state."),
    asked_seconds: nullableInteger('Requested time, put on hold, in charged seconds.'),
    used_seconds: nullableInteger('Wall-clock runtime, in seconds.'),
    charged_seconds: nullableInteger('Charged seconds; negative for a refund.'),
    charge_rule: nullableString('Why the job was charged or not.'),
  },
  { additionalProperties: false },
);

/** The history of one job. */
export const TimelineSchema = Type.Object(
  {
    job: Type.Ref('Job'),
    tags: Type.Array(Type.String(), { description: 'The tags of the job.' }),
    asked_seconds: Type.Integer({ description: 'Requested time, in charged seconds.' }),
    used_seconds: nullableInteger('Wall-clock runtime, in seconds; null until the job has ended.'),
    charged_seconds: nullableInteger('Charged seconds, minus refunds; null until the job has ended.'),
    entries: Type.Array(TimelineEntry, { description: 'Oldest first.' }),
  },
  {
    $id: 'Timeline',
    additionalProperties: false,
    examples: [
      {
        job: exampleJob,
        tags: ['sweep-17'],
        asked_seconds: 360,
        used_seconds: null,
        charged_seconds: null,
        entries: [
          {
            at: '2026-01-31T12:00:00.000Z',
            type: 'job.accepted',
            stage: 'QUEUED',
            outcome: null,
            reason: null,
            by: null,
            exit_code: null,
            engine_id: null,
            engine_words: null,
            asked_seconds: 360,
            used_seconds: null,
            charged_seconds: null,
            charge_rule: null,
          },
        ],
      },
    ],
  },
);

export type TimelineEntryJson = Static<typeof TimelineEntry>;

/** Formats the public JSON of a timeline. `jobJson` is the public JSON of its job. */
export function toTimelineJson(jobJson: string, rest: Omit<Static<typeof TimelineSchema>, 'job'>): string {
  return `{"job":${jobJson},${JSON.stringify(rest).slice(1)}`;
}

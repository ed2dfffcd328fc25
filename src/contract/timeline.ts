import Type, { type Static } from 'typebox';

const nullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
const nullableWhole = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description });

const TimelineEntry = Type.Object(
  {
    at: Type.String({ description: 'ISO 8601, UTC.', examples: ['2026-01-31T12:00:00.000Z'] }),
    type: Type.String({ description: 'The type of the event, or `ledger.refund`.', examples: ['job.ended'] }),
    stage: nullableText('The stage that the job reached.'),
    outcome: nullableText('How it ended; several outcomes are shown as the same stage.'),
    reason: nullableText('Why, in a line.'),
    exit_code: nullableWhole('The exit code of the job.'),
    engine_id: nullableText('The identifier that the HPC system itself gave the job.'),
    engine_words: nullableText('What the HPC system itself said.'),
    asked_seconds: nullableWhole("Seconds of the system's charging unit that were asked for, and held."),
    used_seconds: nullableWhole('Wall-clock seconds that it ran.'),
    charged_seconds: nullableWhole("Seconds of the system's charging unit that were charged; negative for a refund."),
    charge_rule: nullableText('Why it was charged, or not.'),
  },
  { additionalProperties: false },
);

/** What became of a job, step by step. */
export const TimelineSchema = Type.Object(
  {
    job: Type.Ref('Job'),
    asked_seconds: Type.Integer({ description: "Seconds of the system's charging unit that were asked for." }),
    used_seconds: nullableWhole('Wall-clock seconds that it ran; null while it has not ended.'),
    charged_seconds: nullableWhole('Seconds charged, refunds taken off; null while it has not ended.'),
    entries: Type.Array(TimelineEntry, { description: 'The first one first.' }),
  },
  { $id: 'Timeline', additionalProperties: false },
);

export type TimelineEntryJson = Static<typeof TimelineEntry>;

/** The public JSON of a timeline, around that of its job. */
export function toTimelineJson(jobJson: string, rest: Omit<Static<typeof TimelineSchema>, 'job'>): string {
  return `{"job":${jobJson},${JSON.stringify(rest).slice(1)}`;
}

import { toIsoTime } from '../../contract/json-format.ts';
import { type TimelineEntryJson, toTimelineJson } from '../../contract/timeline.ts';
import type { Db } from '../../store/database/handle.ts';
import { type EventRecord, listJobEvents } from '../../store/events/events.ts';
import type { JobRecord } from '../../store/jobs/jobs.ts';
import { getJobCharges, type JobCharges } from '../../store/ledger/job-charges.ts';
import type { Owner, PathScope, Systems } from '../scope.ts';
import { requireJob } from './find-job.ts';

/** What became of a job, from the events and the ledger, as JSON. Somebody else's does not exist for its reader. */
export async function readTimeline(
  db: Db,
  systems: Systems,
  owner: Owner,
  place: Required<PathScope>,
  jobId: string,
): Promise<string> {
  const job = await requireJob(db, systems, owner, place, jobId);
  const account = await getJobCharges(db, job);
  const events = await listJobEvents(db, job.id);
  const refunded = account.refunds.reduce((total, { seconds }) => total + seconds, 0);
  const entries = [...events.map((event) => stepOf(event, account)), ...account.refunds.map(refundStep)];
  return toTimelineJson(job.publicJson, {
    asked_seconds: account.heldSeconds,
    used_seconds: usedSeconds(job),
    charged_seconds: account.resolution && account.resolution.timeSeconds - refunded,
    entries: entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)),
  });
}

function usedSeconds({ status }: JobRecord): number | null {
  return 'elapsedSeconds' in status ? status.elapsedSeconds : null;
}

const nothing: Omit<TimelineEntryJson, 'at' | 'type'> = {
  stage: null,
  outcome: null,
  reason: null,
  exit_code: null,
  engine_id: null,
  engine_words: null,
  asked_seconds: null,
  used_seconds: null,
  charged_seconds: null,
  charge_rule: null,
};

function stepOf({ at, kind, data }: EventRecord, { heldSeconds, resolution }: JobCharges): TimelineEntryJson {
  const told = JSON.parse(data) as Partial<TimelineEntryJson> & { elapsed_seconds?: number };
  const ended = kind === 'job.ended';
  return {
    ...nothing,
    at: toIsoTime(at),
    type: kind,
    stage: told.stage ?? null,
    outcome: told.outcome ?? null,
    reason: told.reason ?? null,
    exit_code: told.exit_code ?? null,
    engine_id: told.engine_id ?? null,
    engine_words: told.engine_words ?? null,
    asked_seconds: kind === 'job.accepted' ? heldSeconds : null,
    used_seconds: told.elapsed_seconds ?? null,
    charged_seconds: ended ? (resolution?.timeSeconds ?? null) : null,
    charge_rule: ended ? (resolution?.rule ?? null) : null,
  };
}

function refundStep({ at, seconds, reason }: JobCharges['refunds'][number]): TimelineEntryJson {
  return { ...nothing, at: toIsoTime(at), type: 'ledger.refund', reason, charged_seconds: -seconds };
}

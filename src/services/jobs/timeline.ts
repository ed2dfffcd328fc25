import type { Static } from 'typebox';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { type GrantedRequestSchema, type TimelineEntryJson, toTimelineJson } from '../../contract/timeline.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import { type EventRecord, listJobEvents } from '../../store/events/events.ts';
import type { JobRecord } from '../../store/jobs/jobs.ts';
import { getJobCharges, type JobCharges } from '../../store/ledger/ledger.ts';
import { type ReadDeps, requireSystem } from '../scope.ts';
import { type JobPath, requireJob } from './find-job.ts';

/** The history of a job as JSON, from its events and the ledger. A job of another owner is reported as unknown. */
export async function readTimeline(deps: ReadDeps, path: JobPath): Promise<string> {
  const { db, systems } = deps;
  const job = await requireJob(deps, path);
  const { status } = job;
  const charges = await getJobCharges(db, job);
  const events = await listJobEvents(db, job.id);
  const refunded = charges.refunds.reduce((total, { seconds }) => total + seconds, 0);
  const entries = [...events.map((event) => eventEntry(event, charges)), ...charges.refunds.map(refundEntry)];
  return toTimelineJson(job.publicJson, {
    tags: [...(job.request.tags ?? [])],
    request: publicRequest(job, requireSystem(systems, path.hpc)),
    started_at: toIsoTimeOrNull('startedAt' in status ? status.startedAt : null),
    held_seconds: charges.heldSeconds,
    used_seconds: 'elapsedSeconds' in status ? status.elapsedSeconds : null,
    charged_seconds: charges.resolution && charges.resolution.timeSeconds - refunded,
    refunded_seconds: refunded,
    // The size at the end of the job. Its deletion has freed the space.
    space_bytes: status.state === 'deleted' ? 0 : (charges.resolution?.spaceBytes ?? null),
    entries: entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)),
  });
}

function publicRequest({ request }: JobRecord, { commandLanguage }: HpcSystem): Static<typeof GrantedRequestSchema> {
  const { command, tool, nodes, coresPerNode, runtimeHours, params = tool === null ? {} : null } = request;
  return {
    command: commandLanguage.format(command),
    tool,
    nodes,
    cores_per_node: coresPerNode,
    runtime: runtimeHours,
    params,
  };
}

const emptyEntry: Omit<TimelineEntryJson, 'at' | 'type'> = {
  stage: null,
  outcome: null,
  reason: null,
  by: null,
  exit_code: null,
  engine_id: null,
  scheduler_message: null,
  held_seconds: null,
  used_seconds: null,
  charged_seconds: null,
  charge_rule: null,
  deletes_at: null,
};

function eventEntry({ at, kind, data }: EventRecord, { resolution }: JobCharges): TimelineEntryJson {
  const payload = JSON.parse(data) as Partial<TimelineEntryJson> & { elapsed_seconds?: number };
  const isEnd = kind === 'job.ended';
  // The data of an event and an entry have the same names.
  const fields = Object.keys(emptyEntry) as (keyof typeof emptyEntry)[];
  return {
    ...emptyEntry,
    ...Object.fromEntries(fields.map((field) => [field, payload[field] ?? null])),
    at: toIsoTime(at),
    type: kind,
    used_seconds: payload.elapsed_seconds ?? null,
    charged_seconds: isEnd ? (resolution?.timeSeconds ?? null) : null,
    charge_rule: isEnd ? (resolution?.rule ?? null) : null,
  };
}

function refundEntry({ at, seconds, reason }: JobCharges['refunds'][number]): TimelineEntryJson {
  return { ...emptyEntry, at: toIsoTime(at), type: 'ledger.refund', reason, charged_seconds: -seconds };
}

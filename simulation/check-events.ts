import type { Selectable } from 'kysely';
import { toMessageId } from '../src/contract/webhook.ts';
import type { EventKind } from '../src/domain/event.ts';
import type { Tables } from '../src/store/database/tables.ts';
import type { HistoryContext } from './invariants.ts';
import { maxBackwardMs, maxSkewMs, retention } from './plan.ts';
import { webhookEvents } from './users.ts';

type Job = Selectable<Tables['jobs']>;
type Event = Selectable<Tables['events']>;

/** A transaction that is delayed begins so much later. */
const maxDelayMs = 5000;

/** Event numbers have no gaps; a follower has seen them once and in order; a job ends once. */
export async function checkEvents({ db, log, plan }: HistoryContext, jobs: readonly Job[]): Promise<string[]> {
  const events = await db.selectFrom('events').selectAll().orderBy('userId').orderBy('seq').execute();
  const problems: string[] = [];
  for (const [user, own] of Map.groupBy(events, ({ userId }) => userId)) {
    const gap = own.findIndex(({ seq }, index) => seq !== index + 1);
    if (gap >= 0) problems.push(`the events of user ${user} have a gap at ${gap + 1}`);
    const seen = log.events.get(user);
    const wrong = seen?.findIndex(({ id, json }, index) => id !== index + 1 || !isEvent(json, own[index])) ?? -1;
    if (wrong >= 0) problems.push(`user ${user} saw as event ${wrong + 1}: ${JSON.stringify(seen?.[wrong])}`);
  }
  const byJob = Map.groupBy(events, ({ job }) => job);
  for (const { id, jobId, state, endedAt } of jobs) {
    const own = byJob.get(id) ?? [];
    const kinds = own.map(({ kind }) => kind);
    const count = (kind: string) => kinds.filter((each) => each === kind).length;
    if (count('job.accepted') !== 1 || count('job.ended') !== 1)
      problems.push(`the events of ${jobId} are ${kinds.join(', ')}`);
    if (count('job.deleted') !== (state === 'deleted' ? 1 : 0))
      problems.push(`${jobId} has ${count('job.deleted')} deletions`);
    if (!log.deletions.has(jobId) && !isKept(own, endedAt ?? 0, maxBackwardMs(plan)))
      problems.push(`the files of ${jobId} were deleted early, or without a notice in time`);
    if (count('job.running') > 1) problems.push(`${jobId} started twice: ${kinds.join(', ')}`);
    const order = kinds.map((kind) => eventOrder.indexOf(kind)).filter((rank) => rank >= 0);
    if (order.some((rank, index) => rank < (order[index - 1] ?? 0)))
      problems.push(`the events of ${jobId} are out of order: ${kinds.join(', ')}`);
  }
  return problems;
}

/** Whether files were kept for their retention period, and their owner was told in time that they would be deleted. */
function isKept(events: readonly Event[], endedAt: number, backwardMs: number): boolean {
  const timeOf = (kind: EventKind) => events.find((event) => event.kind === kind)?.at;
  const [toldAt, deletedAt] = [timeOf('job.expiring'), timeOf('job.deleted')];
  if (deletedAt === undefined) return true;
  const isLate = deletedAt >= endedAt + retention.keepMs - backwardMs;
  return isLate && toldAt !== undefined && deletedAt >= toldAt + retention.noticeMs - backwardMs;
}

/** In which the events of a job happen; the others can come at any time. */
const eventOrder: EventKind[] = [
  'job.accepted',
  'job.queued',
  'job.running',
  'job.ended',
  'job.expiring',
  'job.deleted',
];

/** Whether a stream or a webhook has sent the event that is stored. */
function isEvent(json: string, event: Event | undefined): boolean {
  const { id, type, at, job, data } = JSON.parse(json);
  return (
    event !== undefined &&
    id === event.seq &&
    type === event.kind &&
    Date.parse(at) === event.at &&
    JSON.stringify(job) === JSON.stringify(JSON.parse(event.jobJson ?? 'null')) &&
    JSON.stringify(data) === JSON.stringify(JSON.parse(event.data))
  );
}

/** Every event of the kinds that were asked for since the registration is delivered at least once, with a right signature. */
export async function checkDeliveries({ db, log, plan }: HistoryContext): Promise<string[]> {
  const deliveries = await db
    .selectFrom('deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhookId')
    .select(['deliveries.id', 'deliveries.eventId', 'deliveries.state', 'webhooks.userId'])
    .execute();
  const eventsById = new Map((await db.selectFrom('events').selectAll().execute()).map((event) => [event.id, event]));
  const webhooks = await db.selectFrom('webhooks').select(['userId', 'createdAt', 'disabledAt']).execute();
  const problems = log.wrongSignatures.map((id) => `message ${id} has a wrong signature`);
  for (const { id, eventId, state, userId } of deliveries) {
    const body = log.received.get(`${userId} ${toMessageId(id)}`);
    const isReceived = body !== undefined;
    if (isReceived && !isEvent(body, eventsById.get(eventId ?? 0)))
      problems.push(`delivery ${id} is not its event: ${body}`);
    // The retries go on for longer than all faults.
    if (state !== 'delivered' || !isReceived)
      problems.push(`delivery ${id} is ${state} and was ${isReceived ? '' : 'never '}received`);
  }
  for (const { userId, createdAt, disabledAt } of webhooks) {
    if (disabledAt !== null) problems.push(`the webhook of user ${userId} is disabled`);
    const delivered = new Set(deliveries.filter((each) => each.userId === userId).map(({ eventId }) => eventId));
    const events = await db
      .selectFrom('events')
      .select(['id', 'at'])
      .where('userId', '=', userId)
      .where('kind', 'in', webhookEvents)
      .execute();
    // Events of a disabled user are not delivered. A transaction can begin some seconds after the time of its event.
    const skewMs = maxSkewMs(plan);
    const isOptional = (at: number) =>
      at <= createdAt + skewMs ||
      log.disablings.some(
        ({ user, from, to }) => user === userId && at > from - skewMs - maxDelayMs && at < to + skewMs,
      );
    const missing = events.filter(({ id, at }) => !isOptional(at) && !delivered.has(id));
    if (missing.length > 0) problems.push(`user ${userId} has no delivery of event ${missing[0]?.id}`);
  }
  return problems;
}

import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { EventPageSchema } from '../../contract/event.ts';
import { patterns } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import { type EventPosition, followEvents, pollEvents, resolvePosition } from '../../services/events/read-events.ts';
import { requireUserId } from '../../services/identity/access.ts';
import { type CallerRequest, operation, operations, others, own } from '../operation.ts';
import { type ServerSentEvent, sendEvents } from '../response/sse.ts';
import type { RouteContext } from './context.ts';

const position = (description: string) =>
  Type.Optional(Type.String({ pattern: patterns.eventPosition.pattern, description }));

const eventQuery = {
  after: position(
    'The id of the last event that you have received, or `latest` for new events only. Default: all stored events.',
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: 'JSON: maximum number of events. Default: 100.' }),
  ),
  wait: Type.Optional(
    Type.Number({ minimum: 0, maximum: 60, description: 'JSON: seconds to wait for an event. Default: 0.' }),
  ),
};

const eventLog = {
  description: `As server-sent events or, with \`Accept: application/json\`, as JSON with long polling. Event ids have
no gaps: a client that continues after the last event that it has received gets every event exactly once. Events are
stored for a configured time; continuing after a deleted event is 410 \`events_expired\`.`,
  query: eventQuery,
  headers: { 'Last-Event-Id': position('Like `after`, and takes precedence over it.') },
  responses: {
    200: {
      description: 'A stream of events, each with its id, type and JSON data; or one page of events as JSON.',
      content: {
        'application/json': { schema: EventPageSchema },
        'text/event-stream': {
          schema: Type.String({ description: 'The data of each event is an `Event` as JSON.' }),
          example: 'retry: 1000\n\nid: 7\nevent: job.ended\ndata: {"id":7,"type":"job.ended",…}\n\n',
        },
      },
    },
  },
};

type EventRequest = CallerRequest<string, typeof eventQuery>;

/** Streams changes to a user's jobs and quotas. */
export function eventOperations(context: RouteContext) {
  const { heartbeatMs, watchAccess, countOpenRequest, closing } = context;

  const send = async (request: EventRequest, reply: FastifyReply, userId: string) => {
    countOpenRequest('event_listener', request.caller.userId, reply);
    const after = await resolvePosition(context, userId, toPosition(request));
    const { check: checkAccess, ended } = watchAccess(request, reply, closing);
    const reading = { userId, after, checkAccess };
    async function* toServerSentEvents(signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
      try {
        const events = followEvents(context, { ...reading, signal });
        for await (const { id, type, json } of events) yield { id: String(id), event: type, data: json };
      } catch (error) {
        // The token was revoked, for example. The client gets the reason when it connects again.
        if (!(error instanceof BursarError)) throw error;
      }
    }
    if (wantsStream(request)) return sendEvents(reply, ended, toServerSentEvents, heartbeatMs);
    const { limit = 100, wait = 0 } = request.query;
    reply.header('cache-control', 'no-store');
    return await pollEvents(context, { ...reading, signal: ended }, { limit, waitMs: Math.ceil(wait * 1000) });
  };

  return operations('events', {
    listEvents: operation({
      route: 'GET /events/',
      access: own('events.read'),
      summary: 'Your events, as they happen',
      ...eventLog,
      handler: (request, reply) => send(request, reply, request.caller.userId),
    }),
    listEventsOfUser: operation({
      route: 'GET /admin/events/{user_id}/',
      access: others('events.read'),
      summary: 'Events of a user, as they happen',
      ...eventLog,
      handler: async (request, reply) => send(request, reply, await requireUserId(context, request.params.user_id)),
    }),
  });
}

/** A stream is the default. JSON needs an Accept header or a parameter that only JSON has. */
function wantsStream({ headers: { accept = '' }, query: { limit, wait } }: EventRequest): boolean {
  if (accept.includes('text/event-stream')) return true;
  return !accept.includes('json') && limit === undefined && wait === undefined;
}

/** A client that reconnects repeats its first URL, with the last event that it has received in the header. */
function toPosition({ headers, query }: EventRequest): EventPosition {
  const text = headers['last-event-id']?.toString() || query.after || 'oldest';
  return text === 'latest' || text === 'oldest' ? text : Number(text);
}

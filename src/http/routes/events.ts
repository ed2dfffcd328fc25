import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { EventService } from '../../services/events/event-service.ts';
import type { EventPosition, StreamedEvent } from '../../services/events/read-events.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { OpenRequests } from '../limits/open-requests.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { closingSignal } from '../request/abort-signals.ts';
import type { AccessWatch } from '../request/access-watch.ts';
import { actorOf } from '../request/authentication.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { sendJson } from '../response/send.ts';
import { type ServerSentEvent, sendEvents } from '../response/sse.ts';
import { addResource } from './resource.ts';

export interface EventRouteOptions {
  heartbeatMs: number;
  accessWatch: AccessWatch;
  openRequests: OpenRequests;
}

const EventQuery = Type.Object({
  after: Type.Optional(
    Type.String({
      description:
        'The id of the last event that you have received, or `latest` for new events only. Default: all stored events.',
    }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: 'JSON: maximum number of events. Default: 100.' }),
  ),
  wait: Type.Optional(
    Type.Number({ minimum: 0, maximum: 60, description: 'JSON: seconds to wait for an event. Default: 0.' }),
  ),
});

const EventHeaders = Type.Object({
  'last-event-id': Type.Optional(Type.String({ description: 'Like `after`, and takes precedence over it.' })),
});

const description = `As server-sent events or, with \`Accept: application/json\`, as JSON with long polling. Event ids have
no gaps: a client that continues after the last event that it has received gets every event exactly once. Events are
stored for a configured time; continuing after a deleted event is 410 \`events_expired\`.`;

const eventResponse = {
  description: 'A stream of events, each with its id, type and JSON data; or one page of events as JSON.',
  content: {
    'application/json': { schema: Type.Ref('EventPage') },
    'text/event-stream': {
      schema: Type.String({ description: 'The data of each event is an `Event` as JSON.' }),
      example: 'retry: 1000\n\nid: 7\nevent: job.ended\ndata: {"id":7,"type":"job.ended",…}\n\n',
    },
  },
};

/** Streams changes to a user's jobs and quotas. */
export function eventRoutes(
  app: FastifyInstance,
  events: EventService,
  access: AccessService,
  options: EventRouteOptions,
): void {
  const closing = closingSignal(app);
  const { own, ofUser } = ownerScopes('events', access);
  for (const scope of [own, ofUser]) eventRoute(app, events, scope, options, closing);
}

function eventRoute(
  app: FastifyInstance,
  events: EventService,
  scope: OwnerScope,
  options: EventRouteOptions,
  closing: AbortSignal,
): void {
  addResource(app, scope.prefix, {
    GET: {
      access: { action: 'events.read', reach: scope.reach },
      schema: {
        ...describeRoute(scope.tag, scope.operationId('listEvents'), scope.describe('events, as they happen'), {
          200: eventResponse,
        }),
        description,
        params: Type.Object({ ...scope.params }),
        querystring: EventQuery,
        headers: EventHeaders,
      },
      handler: async (request, reply) => {
        options.openRequests.openUntilClosed('event_listener', actorOf(request).userId, reply);
        const userId = (await scope.ownerOf(request)) ?? '';
        const { heartbeatMs, accessWatch } = options;
        const eventLog = await events.open(userId, parsePosition(request), accessWatch.createCheck(request));
        const signal = accessWatch.signal(request, reply, closing);
        if (wantsStream(request)) return sendEventStream(reply, signal, heartbeatMs, eventLog.follow);
        const { limit = 100, wait = 0 } = request.query as Static<typeof EventQuery>;
        const json = await eventLog.poll({ limit, waitMs: Math.ceil(wait * 1000) }, signal);
        return sendJson(reply.header('cache-control', 'no-store'), 200, json);
      },
    },
  });
}

function sendEventStream(
  reply: FastifyReply,
  ending: AbortSignal,
  heartbeatMs: number,
  follow: (signal: AbortSignal) => AsyncIterable<StreamedEvent>,
): FastifyReply {
  async function* toServerSentEvents(signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
    try {
      for await (const { id, type, json } of follow(signal)) yield { id: String(id), event: type, data: json };
    } catch (error) {
      // The token was revoked, for example. The client gets the reason when it connects again.
      if (!(error instanceof BursarError)) throw error;
    }
  }
  return sendEvents(reply, ending, toServerSentEvents, heartbeatMs);
}

/** A stream is the default. JSON needs an Accept header or a parameter that only JSON has. */
function wantsStream(request: FastifyRequest): boolean {
  const { accept = '' } = request.headers;
  const { limit, wait } = request.query as Static<typeof EventQuery>;
  if (accept.includes('text/event-stream')) return true;
  return !accept.includes('json') && limit === undefined && wait === undefined;
}

/** A client that reconnects repeats its first URL, with the last event that it has received in the header. */
function parsePosition(request: FastifyRequest): EventPosition {
  const { after } = request.query as Static<typeof EventQuery>;
  const { 'last-event-id': lastId } = request.headers as Static<typeof EventHeaders>;
  const text = lastId || after;
  if (text === undefined || text === '') return 'oldest';
  if (text === 'latest') return text;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new BursarError(
    'bad_request',
    `"${text.slice(0, 64)}" is not the id of an event. Use the id of an event that you have received.`,
  );
}

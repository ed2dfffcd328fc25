import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { EventService } from '../../services/events/event-service.ts';
import type { EventPosition, StreamedEvent } from '../../services/events/read-events.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { Actor } from '../../services/identity/actor.ts';
import { actorOf } from '../request/authentication.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { type ServerSentEvent, sendEvents } from '../response/sse.ts';
import { closingSignal, requestSignal } from '../server/abort-signals.ts';
import { describe, sendJson } from '../server/openapi.ts';
import { resource } from './resource.ts';

export interface EventRouteOptions {
  heartbeatMs: number;
  /** Rejects if the token is no longer valid. */
  authenticate(authorization: string | undefined): Promise<Actor>;
}

const EventQuery = Type.Object({
  after: Type.Optional(
    Type.String({
      description:
        'The id of the last event that you have seen, or `latest` for what comes from now on. Left out: all that are kept.',
    }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: 'JSON: how many at the most (100).' })),
  wait: Type.Optional(
    Type.Number({ minimum: 0, maximum: 60, description: 'JSON: how many seconds to wait for an event (0).' }),
  ),
});

const EventHeaders = Type.Object({
  'last-event-id': Type.Optional(Type.String({ description: 'As `after`, and wins over it.' })),
});

const description = `As server-sent events, or, with \`Accept: application/json\`, as JSON with long polling. Numbers of
events have no gaps: whoever goes on after the last event that they have seen misses nothing and gets nothing twice.
Events are kept for a configured time; going on after one from before that is 410 \`events_expired\`.`;

const answer = {
  description: 'A stream of events, each with its id, its type and its JSON; or a page of them.',
  content: {
    'application/json': { schema: Type.Ref('EventPage') },
    'text/event-stream': { schema: Type.String() },
  },
};

/** What happens to a user's jobs and quotas, as it happens. */
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
  const about = describe(scope.tag, scope.describe('events, as they happen'), {});
  resource(app, scope.prefix, {
    GET: {
      schema: {
        ...about,
        description,
        response: { 200: answer, ...about.response },
        params: Type.Object({ ...scope.params }),
        querystring: EventQuery,
        headers: EventHeaders,
      },
      handler: async (request, reply) => {
        const userId = (await scope.ownerOf(request)) ?? '';
        const after = await events.startingPoint(userId, positionOf(request));
        const checkAccess = accessCheck(options, request);
        if (!wantsStream(request)) {
          const { limit = 100, wait = 0 } = request.query as Static<typeof EventQuery>;
          const pollRequest = { after, limit, waitMs: Math.ceil(wait * 1000) };
          const json = await events.poll(userId, pollRequest, requestSignal(reply, closing), checkAccess);
          return sendJson(reply.header('cache-control', 'no-store'), 200, json);
        }
        return stream(reply, closing, options.heartbeatMs, (signal) =>
          events.follow(userId, after, signal, checkAccess),
        );
      },
    },
  });
}

function stream(
  reply: FastifyReply,
  closing: AbortSignal,
  heartbeatMs: number,
  follow: (signal: AbortSignal) => AsyncIterable<StreamedEvent>,
): FastifyReply {
  async function* frames(signal: AbortSignal): AsyncGenerator<ServerSentEvent> {
    try {
      for await (const { id, type, json } of follow(signal)) yield { id: String(id), event: type, data: json };
    } catch (error) {
      // The token was revoked, for example. The client gets the reason when it connects again.
      if (!(error instanceof BursarError)) throw error;
    }
  }
  return sendEvents(reply, closing, frames, heartbeatMs);
}

/** Streams are what the path is for: JSON is for those who ask for it. */
function wantsStream(request: FastifyRequest): boolean {
  const { accept = '' } = request.headers;
  const { limit, wait } = request.query as Static<typeof EventQuery>;
  if (accept.includes('text/event-stream')) return true;
  return !accept.includes('json') && limit === undefined && wait === undefined;
}

/** A client that connects again repeats its first address, and tells in the header how far it has come since. */
function positionOf(request: FastifyRequest): EventPosition {
  const { after } = request.query as Static<typeof EventQuery>;
  const { 'last-event-id': lastId } = request.headers as Static<typeof EventHeaders>;
  const text = lastId || after;
  if (text === undefined || text === '') return 'oldest';
  if (text === 'latest') return text;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new BursarError(
    'bad_request',
    `"${text.slice(0, 64)}" is not the id of an event. Use the id of one you have seen.`,
  );
}

/** Rejects if the token no longer belongs to the same user with the same rights. */
function accessCheck({ authenticate }: EventRouteOptions, request: FastifyRequest) {
  const { userId, admin } = actorOf(request);
  return async () => {
    const now = await authenticate(request.headers.authorization);
    if (now.userId !== userId || (admin && !now.admin))
      throw new BursarError('token_invalid', 'The rights of this token have changed. Connect again.');
  };
}

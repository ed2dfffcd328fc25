import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectPath } from '../request/path-params.ts';
import { logEvents } from '../response/log-events.ts';
import { sendEmpty } from '../response/send-nothing.ts';
import { sendEvents } from '../response/sse.ts';
import { closingSignal, requestSignal } from '../server/abort-signals.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

const LogQuery = Type.Object({
  stream: Type.Enum(['stdout', 'stderr'], { default: 'stdout' }),
  offset: Type.Integer({ minimum: 0, default: 0, description: 'The byte to begin with.' }),
  follow: Type.Enum(['0', '1'], { default: '0', description: '`1`: go on until the job has ended.' }),
});

/** How long a silent connection is left alone before it is looked whether its other end is still there. */
const keepAliveMs = 30_000;

/** What a job prints: read, or followed while it runs. */
/** Rejects if the token is no longer valid. */
type Authenticate = (authorization: string | undefined) => Promise<unknown>;

export function logRoutes(
  app: FastifyInstance,
  files: FileService,
  access: AccessService,
  authenticate: Authenticate,
): void {
  const closing = closingSignal(app);
  const { own, ofUser, everybody } = ownerScopes('jobs', access);
  for (const scope of [own, ofUser, everybody]) logRoute(app, files, scope, authenticate, closing);
}

function logRoute(
  app: FastifyInstance,
  files: FileService,
  scope: OwnerScope,
  authenticate: Authenticate,
  closing: AbortSignal,
): void {
  const { response, ...head } = describe(scope.tag, scope.describe('jobs: what one of them prints'), {});
  const text = { schema: Type.String() };
  resource(app, `${scope.prefix}:hpc/:project_name/:job_id/log/`, {
    GET: {
      schema: {
        ...head,
        description:
          'Text, or server-sent events with `Accept: text/event-stream`: the data of each is JSON with `offset` and ' +
          '`text`, its id the offset to resume from; `end` comes when the job has ended and everything was sent.',
        params: Type.Object({ ...scope.params, ...jobParams }),
        querystring: LogQuery,
        headers: Type.Object({
          'last-event-id': Type.Optional(
            Type.String({ pattern: '^\\d{1,15}$', description: 'Goes before `offset`: where events broke off.' }),
          ),
        }),
        response: {
          200: { description: 'What it printed.', content: { 'text/plain': text, 'text/event-stream': text } },
          204: { type: 'null', description: 'There is nothing more, and nothing more will come.' },
          ...response,
        },
      },
      handler: async (request, reply) => {
        const { stream, offset, follow } = request.query as Static<typeof LogQuery>;
        const over = requestSignal(reply, closing);
        const question = { place: projectPath(request), jobId: jobIdOf(request), stream, signal: over };
        const log = await files.openLog({ owner: await scope.ownerOf(request), ...question });
        const resumed = request.headers['last-event-id'];
        const from = resumed === undefined ? offset : Number(resumed);
        if (from > log.size && follow === '0') throw beyond(from, log.size);
        const mayStillRead = () => authenticate(request.headers.authorization);
        const pieces = () => (follow === '1' ? checked(log.follow(from), mayStillRead) : log.read(from));
        if (!wantsEvents(request)) return sendText(reply, pieces);
        // To a browser that comes back this says: do not come again.
        if (resumed !== undefined && log.isOver && from >= log.size) return reply.code(204).send();
        return sendEvents(reply, closing, () =>
          logEvents(pieces(), from, () => !over.aborted && (follow === '1' || log.isOver)),
        );
      },
    },
  });
}

const wantsEvents = (request: FastifyRequest) => /\btext\/event-stream\b/.test(request.headers.accept ?? '');

/** A token may be revoked, or expire, while somebody follows with it. */
async function* checked(pieces: AsyncIterable<Buffer>, mayStillRead: () => Promise<unknown>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    await mayStillRead();
    yield piece;
  }
}

function beyond(offset: number, size: number): BursarError {
  return new BursarError(
    'range_not_satisfiable',
    `The log has ${size} bytes so far; the offset ${offset} is beyond them. Begin there or before, or follow it.`,
  );
}

function sendText(reply: FastifyReply, pieces: () => AsyncIterable<Buffer>): FastifyReply {
  reply
    .header('content-type', 'text/plain; charset=utf-8')
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', 'no-store')
    .header('x-accel-buffering', 'no');
  if (reply.request.method === 'HEAD') return sendEmpty(reply);
  reply.raw.socket?.setKeepAlive(true, keepAliveMs);
  async function* bytes() {
    // A job may be silent for hours: that it is followed is said at once.
    reply.raw.flushHeaders();
    yield* pieces();
  }
  return reply.send(Readable.from(bytes(), { objectMode: false }));
}

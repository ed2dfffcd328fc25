import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { patterns } from '../../contract/patterns.ts';
import { BursarError } from '../../domain/errors.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { OpenRequests } from '../limits/open-requests.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { closingSignal, requestSignal } from '../request/abort-signals.ts';
import type { AccessWatch } from '../request/access-watch.ts';
import { actorOf } from '../request/authentication.ts';
import { type OwnerScope, ownerScopes } from '../request/owner-scope.ts';
import { jobIdOf, jobParams, projectScope } from '../request/path-params.ts';
import { toLogEvents } from '../response/log-events.ts';
import { sendEmpty } from '../response/send.ts';
import { sendEvents } from '../response/sse.ts';
import { addResource } from './resource.ts';

const LogQuery = Type.Object({
  stream: Type.Enum(['stdout', 'stderr'], { default: 'stdout' }),
  offset: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    default: 0,
    description: 'Offset of the first byte to read.',
  }),
  follow: Type.Enum(['0', '1'], { default: '0', description: '`1`: keep reading until the job has ended.' }),
});

const logResponses = {
  200: {
    description: 'The output.',
    content: {
      'text/plain': { schema: Type.String(), example: 'Hello\n' },
      'text/event-stream': {
        schema: Type.String({ description: 'The data of each event is JSON with `offset` and `text`.' }),
        example: 'id: 6\ndata: {"offset":0,"text":"Hello\\n"}\n\nid: 6\nevent: end\ndata: {"offset":6}\n\n',
      },
    },
  },
  204: { type: 'null', description: 'The log is complete, and there is nothing after `Last-Event-ID`.' },
} as const;

/** A connection that is silent for this long gets TCP keep-alive probes, which detect a client that has gone. */
const keepAliveMs = 30_000;

export interface LogRouteOptions {
  accessWatch: AccessWatch;
  openRequests: OpenRequests;
}

/** Reads the standard output and standard error of jobs, and follows them while the jobs run. */
export function logRoutes(
  app: FastifyInstance,
  files: FileService,
  access: AccessService,
  options: LogRouteOptions,
): void {
  const closing = closingSignal(app);
  const { own, anyUser } = ownerScopes('jobs', access);
  for (const scope of [own, anyUser]) logRoute(app, files, scope, options, closing);
}

function logRoute(
  app: FastifyInstance,
  files: FileService,
  scope: OwnerScope,
  { accessWatch, openRequests }: LogRouteOptions,
  closing: AbortSignal,
): void {
  addResource(app, `${scope.prefix}:hpc/:project_name/:job_id/log/`, {
    GET: {
      access: { action: 'files.read', reach: scope.reach },
      schema: {
        ...describeRoute(scope.tag, scope.operationId('getJobLog'), scope.describe('job: its output'), logResponses),
        description:
          'Text or, with `Accept: text/event-stream`, server-sent events. The data of an event is JSON with `offset` and ' +
          '`text`; its id is the offset to resume from. The last event, `end`, is sent when the log is complete. If the ' +
          'server stops, or the token is revoked, while a log is followed, text ends in the middle of the response (an error of the transfer), and ' +
          'events end without `end`. Repeat the request with the next offset. `HEAD` returns the number of bytes as `Content-Length`.',
        params: Type.Object({ ...scope.params, ...jobParams }),
        querystring: LogQuery,
        headers: Type.Object({
          'last-event-id': Type.Optional(
            Type.String({
              pattern: patterns.offset.pattern,
              description: 'The offset to resume from. Takes precedence over `offset`.',
            }),
          ),
        }),
      },
      handler: async (request, reply) => {
        const { stream, offset, follow } = request.query as Static<typeof LogQuery>;
        const kind = follow === '1' ? 'log_follower' : 'download';
        const user = actorOf(request).userId;
        openRequests.openUntilClosed(kind, user, reply);
        const signal = follow === '1' ? accessWatch.signal(request, reply, closing) : requestSignal(reply, closing);
        const owner = await scope.ownerOf(request);
        const project = projectScope(request);
        const log = await files.openLog({ owner, user, project, jobId: jobIdOf(request), stream, signal });
        const lastEventId = request.headers['last-event-id'];
        const from = lastEventId === undefined ? offset : Number(lastEventId);
        if (from > log.size && follow === '0') throw beyondEnd(from, log.size);
        const checkAccess = accessWatch.createCheck(request);
        const chunks = () => (follow === '1' ? withAccessCheck(log.follow(from), checkAccess) : log.read(from));
        if (!acceptsEventStream(request)) {
          // A client reads the length by HEAD, and begins near the end of a long log.
          if (request.method === 'HEAD' && follow === '0') reply.header('content-length', log.size - from);
          return sendText(reply, chunks, signal);
        }
        // 204 tells an EventSource not to reconnect.
        if (lastEventId !== undefined && log.isComplete && from >= log.size) return reply.code(204).send();
        return sendEvents(reply, closing, () =>
          toLogEvents(chunks(), from, () => !signal.aborted && (follow === '1' || log.isComplete)),
        );
      },
    },
  });
}

const acceptsEventStream = (request: FastifyRequest) => /\btext\/event-stream\b/.test(request.headers.accept ?? '');

/** Ends with an error if the caller may no longer read the log. */
async function* withAccessCheck(
  chunks: AsyncIterable<Buffer>,
  checkAccess: () => Promise<unknown>,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    await checkAccess();
    yield chunk;
  }
}

function beyondEnd(offset: number, size: number): BursarError {
  return new BursarError(
    'range_not_satisfiable',
    `The offset ${offset} is beyond the end of the log, which has ${size} bytes now. Use a smaller offset, or follow=1.`,
  );
}

/** Closes the connection. HTTP/1.0 has no chunks, so that only a reset shows that the end is missing. */
function cutOff({ raw, request }: FastifyReply): void {
  if (request.raw.httpVersion === '1.0') raw.socket?.resetAndDestroy();
  else raw.socket?.destroySoon();
}

/**
 * Sends text. If the signal is aborted before the end, because the server is closing, the connection is closed without the
 * end of the response: otherwise the client would take a part of the log for the whole.
 */
function sendText(reply: FastifyReply, chunks: () => AsyncIterable<Buffer>, signal: AbortSignal): FastifyReply {
  reply
    .header('content-type', 'text/plain; charset=utf-8')
    .header('cache-control', 'no-store')
    .header('x-accel-buffering', 'no');
  if (reply.request.method === 'HEAD') return sendEmpty(reply);
  reply.raw.socket?.setKeepAlive(true, keepAliveMs);
  async function* bytes() {
    // Sent at once: the job may write nothing for hours.
    reply.raw.flushHeaders();
    yield* chunks();
    if (signal.aborted) cutOff(reply);
  }
  return reply.send(Readable.from(bytes(), { objectMode: false }));
}

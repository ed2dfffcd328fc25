import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { patterns } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import { openJobLog } from '../../services/jobs/read-log.ts';
import type { Owner } from '../../services/scope.ts';
import { type CallerRequest, operation, operations, others, own } from '../operation.ts';
import { requestSignal } from '../request/open-response.ts';
import { toJob } from '../request/path-params.ts';
import { sendEmpty } from '../response/send.ts';
import { sendEvents, toLogEvents } from '../response/sse.ts';
import type { RouteContext } from './context.ts';

const logQuery = {
  stream: Type.Enum(['stdout', 'stderr'], { default: 'stdout' }),
  offset: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    default: 0,
    description: 'Offset of the first byte to read.',
  }),
  follow: Type.Enum(['0', '1'], { default: '0', description: '`1`: keep reading until the job has ended.' }),
};

const log = {
  description:
    'Text or, with `Accept: text/event-stream`, server-sent events. The data of an event is JSON with `offset` and ' +
    '`text`; its id is the offset to resume from. The last event, `end`, is sent when the log is complete. If the ' +
    'server stops, or the token is revoked, while a log is followed, text ends in the middle of the response (an error of the transfer), and ' +
    'events end without `end`. Repeat the request with the next offset. `HEAD` returns the number of bytes as `Content-Length`.',
  query: logQuery,
  headers: {
    'Last-Event-Id': Type.Optional(
      Type.String({
        pattern: patterns.offset.pattern,
        description: 'The offset to resume from. Takes precedence over `offset`.',
      }),
    ),
  },
  responses: {
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
    204: { description: 'The log is complete, and there is nothing after `Last-Event-ID`.', content: {} },
  },
};

/** A connection that is silent for this long gets TCP keep-alive probes, which detect a client that has gone. */
const keepAliveMs = 30_000;

type LogRequest = CallerRequest<'/{hpc}/{project_name}/{job_id}/', typeof logQuery>;

/** Reads the standard output and standard error of jobs, and follows them while the jobs run. */
export function logOperations(context: RouteContext) {
  const { watchAccess, countOpenRequest, closing, heartbeatMs } = context;
  const sendLog = async (request: LogRequest, reply: FastifyReply, owner: Owner) => {
    const { caller, params, query, headers, method } = request;
    const { stream, offset } = query;
    const follows = query.follow === '1';
    countOpenRequest(follows ? 'log_follower' : 'download', caller.userId, reply);
    const access = follows ? watchAccess(request, reply, closing) : undefined;
    const signal = access?.ended ?? requestSignal(reply, closing);
    const output = await openJobLog(context, { ...toJob(params, owner), user: caller.userId, stream, signal });
    const lastEventId = headers['last-event-id'];
    const from = lastEventId === undefined ? offset : Number(lastEventId);
    if (from > output.size && !follows) {
      const message = `The offset ${from} is beyond the end of the log, which has ${output.size} bytes now. Use a smaller offset, or follow=1.`;
      throw new BursarError('range_not_satisfiable', message);
    }
    async function* chunks() {
      for await (const chunk of follows ? output.follow(from) : output.read(from)) {
        // Ends with an error if the caller may no longer read the log.
        await access?.check();
        yield chunk;
      }
    }
    if (!/\btext\/event-stream\b/.test(headers.accept ?? '')) {
      // A client reads the length by HEAD, and begins near the end of a long log.
      if (method === 'HEAD' && !follows) reply.header('content-length', output.size - from);
      return sendText(reply, chunks, signal);
    }
    // 204 tells an EventSource not to reconnect.
    if (lastEventId !== undefined && output.isComplete && from >= output.size) return reply.code(204).send();
    const isWhole = () => !signal.aborted && (follows || output.isComplete);
    return sendEvents(reply, closing, () => toLogEvents(chunks(), from, isWhole), heartbeatMs);
  };

  return operations('jobs', {
    getJobLog: operation({
      route: 'GET /jobs/{hpc}/{project_name}/{job_id}/log/',
      access: own('files.read'),
      summary: 'Your job: its output',
      ...log,
      handler: (request, reply) => sendLog(request, reply, request.caller.userId),
    }),
    getJobLogOfAnyUser: operation({
      route: 'GET /admin/jobs/{hpc}/{project_name}/{job_id}/log/',
      access: others('files.read'),
      summary: 'Job of any user: its output',
      ...log,
      handler: (request, reply) => sendLog(request, reply, undefined),
    }),
  });
}

/**
 * Sends text. If the signal is aborted before the end, because the server is closing, the connection is closed without the
 * end of the response: otherwise the client would mistake a part of the log for the whole.
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
    if (!signal.aborted) return;
    // HTTP/1.0 has no chunks, so that only a reset shows that the end is missing.
    if (reply.request.raw.httpVersion === '1.0') reply.raw.socket?.resetAndDestroy();
    else reply.raw.socket?.destroySoon();
  }
  return reply.send(Readable.from(bytes(), { objectMode: false }));
}

import { setMaxListeners } from 'node:events';
import type { FastifyInstance, FastifyReply } from 'fastify';

/** Aborted when the server starts to close, so that endless responses end. Their clients reconnect and resume. */
export function closingSignal(app: FastifyInstance): AbortSignal {
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  app.addHook('preClose', async () => closing.abort());
  return closing.signal;
}

/** Aborted when the client has disconnected or, with `closing`, when the server starts to close. */
export function requestSignal(reply: FastifyReply, closing?: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort();
  closing?.addEventListener('abort', abort);
  reply.raw.once('close', () => {
    closing?.removeEventListener('abort', abort);
    abort();
  });
  if (closing?.aborted || reply.raw.destroyed) abort();
  return controller.signal;
}

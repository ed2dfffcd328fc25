import { setMaxListeners } from 'node:events';
import type { FastifyInstance, FastifyReply } from 'fastify';

/** Aborted when the server begins to close: an answer that would go on for hours ends then, and its client resumes. */
export function closingSignal(app: FastifyInstance): AbortSignal {
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  app.addHook('preClose', async () => closing.abort());
  return closing.signal;
}

/** Aborted as soon as nobody waits for an answer any more: its client has gone, or the server is closing. */
export function requestSignal(reply: FastifyReply, closing?: AbortSignal): AbortSignal {
  const over = new AbortController();
  const end = () => over.abort();
  closing?.addEventListener('abort', end);
  reply.raw.once('close', () => {
    closing?.removeEventListener('abort', end);
    end();
  });
  if (closing?.aborted || reply.raw.destroyed) end();
  return over.signal;
}

import { EventEmitter, setMaxListeners } from 'node:events';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Topic } from '../../services/events/event-feed.ts';
import { type AccessDeps, isManager } from '../../services/identity/access.ts';
import { type Authenticate, callerOf } from './access.ts';
import { projectOf } from './path-params.ts';

export interface AccessWatchDeps extends AccessDeps {
  authenticate: Authenticate;
  /** Published when the rights of a user may have become fewer. */
  accessTopic: Pick<Topic, 'subscribe'>;
  /** Between two checks of an open response, for changes whose hint was missed. */
  intervalMs: number;
}

export type WatchAccess = ReturnType<typeof createAccessWatch>;

/**
 * For responses that last: the token of the request may expire or be revoked meanwhile, and its owner may be disabled or lose a
 * role.
 */
export function createAccessWatch({ authenticate, db, accessTopic, intervalMs }: AccessWatchDeps) {
  /** Emits `user <id>` when the rights of a user may have become fewer. */
  const changes = new EventEmitter().setMaxListeners(0);
  accessTopic.subscribe((userId) => changes.emit(`user ${userId}`));

  /**
   * `check` rejects unless the token still belongs to the same user with the same rights. `ended` is aborted when a check fails,
   * when the client has disconnected, or when the server starts to close. The check runs at once after a change of the rights on
   * any instance, and at every interval. A database that does not respond ends nothing.
   */
  return (request: FastifyRequest, reply: FastifyReply, closing: AbortSignal) => {
    const { userId, role, scopes, validUntil } = callerOf(request);
    const project = request.isManager ? projectOf(request) : undefined;
    const check = async () => {
      const current = await authenticate(request);
      const hasChanged = current.userId !== userId || current.role !== role || !scopes.isSubsetOf(current.scopes);
      if (hasChanged || (project !== undefined && !(await isManager({ db }, userId, project))))
        throw new BursarError('token_invalid', 'The rights of this token have changed. Connect again.');
    };
    const refused = new AbortController();
    const ended = AbortSignal.any([requestSignal(reply, closing), refused.signal]);
    if (ended.aborted) return { check, ended };
    const run = () =>
      check().catch((error) => {
        if (error instanceof BursarError && !error.transient) refused.abort();
      });
    changes.on(`user ${userId}`, run);
    let timer: NodeJS.Timeout;
    const schedule = () => {
      const untilExpiryMs = validUntil > Date.now() ? validUntil - Date.now() : Number.POSITIVE_INFINITY;
      const delayMs = Math.min(intervalMs, untilExpiryMs);
      timer = setTimeout(() => void run().finally(() => ended.aborted || schedule()), delayMs);
    };
    schedule();
    ended.addEventListener('abort', () => {
      changes.off(`user ${userId}`, run);
      clearTimeout(timer);
    });
    return { check, ended };
  };
}

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

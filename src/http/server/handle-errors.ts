import type { FastifyBaseLogger, FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import type { RefusedRequest } from '../../services/identity/refusal-recorder.ts';
import { isRefusedAccess } from '../../services/identity/refused-access.ts';
import { drainBody } from '../request/drain-body.ts';
import { toRequestError } from '../request/request-errors.ts';
import { sendErrorPage, sendProblem } from '../response/send-error.ts';
import { loggablePath } from './access-log.ts';

export interface ErrorHandlerDeps {
  log: FastifyBaseLogger;
  requestTimeoutMs: number;
  onRefusedAccess(refused: RefusedRequest): void;
}

/**
 * The time limit for reading the rest of a rejected request. Less than the request timeout, which closes the connection without a
 * response.
 */
const maxDrainMs = 30_000;

/** Sends the problem document or the page of an error, after the client has sent its body. */
export function handleErrors(app: FastifyInstance, deps: ErrorHandlerDeps): void {
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drainBody(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    if (isRefusedAccess(error)) deps.onRefusedAccess(toRefusedRequest(error, request));
    const { isPage } = request.routeOptions.config;
    const problem = (isPage ? sendErrorPage : sendProblem)(toRequestError(error), request.id, reply);
    if (problem.status >= 500 && !isIntended(error))
      deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
}

function toRefusedRequest(error: BursarError, request: FastifyRequest): RefusedRequest {
  const { caller, ip: address, id: requestId, method, url } = request;
  return { error, caller, address, requestId, method, path: loggablePath(url) };
}

/** Responses with 503 that are meant so: an operator need not look. */
const intendedUnavailability = new Set<ErrorCode>(['system_paused', 'server_busy']);
const isIntended = (error: unknown) => error instanceof BursarError && intendedUnavailability.has(error.code);

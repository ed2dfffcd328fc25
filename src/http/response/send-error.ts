import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { html, sendPage } from './page.ts';
import { type Problem, toProblem } from './problem.ts';
import { sendJson } from './send.ts';

/** No request of the API needs more. The zip of a submission is no JSON: `submissions.maxBodyKb` limits it. */
export const maxJsonBytes = 64 * 1024;

/** Errors of Fastify below 500 are the caller's. Everything else is unexpected. */
export function toRequestError(error: FastifyError): unknown {
  if (error instanceof BursarError) return error;
  const status = error.statusCode ?? 500;
  if (status === 413) {
    const message = `The request body is too large. Send at most ${formatBytes(maxJsonBytes)} of JSON.`;
    return new BursarError('too_large', message, { cause: error, details: { maxBytes: maxJsonBytes } });
  }
  return status < 500 ? new BursarError('bad_request', error.message, { cause: error }) : error;
}

/** Sends an error in the form that the route declares. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): Problem {
  const { errors } = request.routeOptions.config.route ?? {};
  const isInvalid = error instanceof BursarError && error.code === 'invalid_body';
  if (errors !== 'page' && !(errors === 'oauth' && isInvalid)) return sendProblem(error, request.id, reply);
  const problem = toProblem(error, request.id);
  const { status, title, detail } = problem;
  if (errors === 'oauth') {
    sendJson(reply, status, JSON.stringify({ error: 'invalid_request', error_description: detail }));
  } else {
    sendRetryAfter(reply, status, error);
    const body = html`<p>${detail}</p>
<p><a href="/sign-in/">Sign in</a></p>
<p>Request <code>${request.id}</code></p>`;
    sendPage(reply, status, { title, body });
  }
  return problem;
}

/** Sends an error as a problem document. */
export function sendProblem(error: unknown, requestId: string, reply: FastifyReply): Problem {
  const problem = toProblem(error, requestId);
  const challenge = toChallenge(problem.status, error);
  if (challenge !== undefined) reply.header('www-authenticate', challenge);
  sendRetryAfter(reply, problem.status, error);
  // Errors before the first hook need them too.
  reply.header('x-request-id', requestId).header('x-content-type-options', 'nosniff');
  sendJson(reply, problem.status, problem.body, 'application/problem+json');
  return problem;
}

function sendRetryAfter(reply: FastifyReply, status: number, error: unknown): void {
  const retryAfter = error instanceof BursarError ? error.retryAfterSeconds : undefined;
  if (status === 503 || retryAfter !== undefined) reply.header('retry-after', String(retryAfter ?? 5));
}

/** The WWW-Authenticate header, as RFC 6750 has it. */
function toChallenge(status: number, error: unknown): string | undefined {
  if (status === 401) return 'Bearer realm="bursar"';
  if (!(error instanceof BursarError) || error.code !== 'insufficient_scope') return undefined;
  const { scope } = error.details;
  // A token that is limited to a project may have the scope.
  return `Bearer realm="bursar", error="insufficient_scope"${scope === undefined ? '' : `, scope="${scope}"`}`;
}

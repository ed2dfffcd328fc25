import type { FastifyError } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';

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

import type { FastifyError } from 'fastify';
import { patterns } from '../../contract/patterns.ts';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { missingKey } from './idempotency-key.ts';

/** No request of the API needs more. The zip of a submission is no JSON: `submissions.maxBodyKb` limits it. */
export const maxJsonBytes = 64 * 1024;

/** A list of small faults could otherwise make a response that is a hundred times as large as its request. */
const maxReportedErrors = 20;
const maxNameLength = 64;

/** Errors of Fastify below 500 are the caller's. Everything else is unexpected. */
export function toRequestError(error: FastifyError): unknown {
  if (error instanceof BursarError) return error;
  if (error.validation?.some(isMissingKey)) return missingKey();
  if (error.validation) return toValidationError(error.validation, error.validationContext);
  const status = error.statusCode ?? 500;
  if (status === 413) {
    const message = `The request body is too large. Send at most ${formatBytes(maxJsonBytes)} of JSON.`;
    return new BursarError('too_large', message, { cause: error, details: { maxBytes: maxJsonBytes } });
  }
  if (status < 500) return new BursarError('bad_request', error.message, { cause: error });
  return error;
}

type ValidationError = NonNullable<FastifyError['validation']>[number];

const isMissingKey = ({ params }: ValidationError) => params.missingProperty === 'idempotency-key';

/** The errors themselves are not kept as the cause: there may be thousands. */
function toValidationError(errors: readonly ValidationError[], context: string | undefined): BursarError {
  const fields = errors.slice(0, maxReportedErrors).map(toFieldError);
  const list = fields.map(({ field, message }) => `${field} ${message}`).join('; ');
  const more = errors.length > fields.length ? `; and ${errors.length - fields.length} more` : '';
  return context === 'querystring'
    ? new BursarError('bad_request', `The query is not valid: ${list}${more}.`, { fields })
    : new BursarError('invalid_body', `The request is not valid: ${list}${more}.`, { fields });
}

function toFieldError(problem: ValidationError): FieldError {
  const { missingProperty, additionalProperty, allowedValues, pattern } = problem.params as {
    missingProperty?: string;
    additionalProperty?: string;
    allowedValues?: string[];
    pattern?: string;
  };
  const path = problem.instancePath.slice(1).replaceAll('/', '.');
  const name = additionalProperty === undefined ? missingProperty : toPrintableName(additionalProperty);
  const field = [path, name].filter(Boolean).join('.') || 'body';
  if (missingProperty !== undefined) return { field, message: 'is required' };
  if (additionalProperty !== undefined) return { field, message: 'is not a known field' };
  if (allowedValues !== undefined) return { field, message: `must be one of ${allowedValues.join(', ')}` };
  const rule = Object.values(patterns).find((each) => each.pattern === pattern)?.rule;
  return { field, message: rule ?? problem.message ?? 'is not valid' };
}

/** A name that a caller has chosen, for a message. */
export const toPrintableName = (name: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
  name.slice(0, maxNameLength).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');

import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { SubmissionHeaders } from '../../contract/submission-headers.ts';
import { BursarError } from '../../domain/errors.ts';
import { keyHeader } from './idempotency-key.ts';
import { multipartFile } from './multipart.ts';

export const payloadHeader = {
  payload: Type.String({
    contentMediaType: 'application/json',
    contentSchema: Type.Ref('Payload'),
    description:
      'The job, as a JSON object on one line: `command` on batch systems, `tool` on tool systems, and the resources.',
  }),
};

export const submissionSchema = {
  headers: Type.Object({
    'content-disposition': Type.String({
      description: 'Names the zip: `attachment; filename=<file.zip>`. Required for a job without a zip, too.',
      examples: ['attachment; filename=job.zip'],
    }),
    ...payloadHeader,
    ...keyHeader,
  }),
  body: {
    content: {
      'application/zip': { schema: Type.String({ format: 'binary' }) },
      'multipart/form-data': {
        schema: Type.Object({ file: Type.String({ format: 'binary', description: 'The zip.' }) }),
      },
    },
  },
};

/** Node joins repeated headers with a comma, so the Payload is taken from the raw headers. */
export function submissionHeaders({ headers, raw }: FastifyRequest): SubmissionHeaders {
  const { rawHeaders } = raw;
  const isPayload = (index: number) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'payload';
  return {
    contentDisposition: headers['content-disposition'],
    payloads: rawHeaders.filter((_, index) => isPayload(index)),
  };
}

/** The bytes of the zip: the whole body, whatever its type, or the one file of a multipart form. */
export function zipBody(
  request: FastifyRequest,
  contentType: string | undefined,
): { body: Readable | AsyncIterable<Uint8Array>; declaredBytes: number | null } {
  const { 'content-encoding': encoding = 'identity' } = request.headers;
  if (encoding.toLowerCase() !== 'identity') {
    const message = `The request body has the Content-Encoding ${JSON.stringify(encoding.slice(0, 64))}. Send the zip itself, without Content-Encoding: it is compressed already.`;
    throw new BursarError('unsupported_encoding', message);
  }
  if (/^multipart\/form-data\s*(;|$)/i.test(contentType ?? '')) {
    // The size of the form includes more than the zip.
    return { body: multipartFile(request.raw, contentType ?? ''), declaredBytes: null };
  }
  const { 'content-length': length } = request.headers;
  return { body: request.raw, declaredBytes: length === undefined ? null : Number(length) };
}

import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { PayloadSchema, type SubmissionHeaders } from '../../contract/submission.ts';
import { BursarError } from '../../domain/errors.ts';
import { multipartFile } from './multipart.ts';

/** For the OpenAPI document: the service checks these headers, because the rules of a payload are those of its system. */
export const payloadHeader = {
  Payload: Type.String({
    contentMediaType: 'application/json',
    contentSchema: PayloadSchema,
    description:
      'The job, as a JSON object on one line: `command` on batch systems, `tool` on tool systems, and the resources.',
  }),
};

export const submissionHeaderSchemas = {
  'Content-Disposition': Type.String({
    description: 'Names the zip: `attachment; filename=<file.zip>`. Required for a job without a zip, too.',
    examples: ['attachment; filename=job.zip'],
  }),
  ...payloadHeader,
};

/** Node joins repeated headers with a comma, so the Payload is taken from the raw headers. */
export function submissionHeaders(request: FastifyRequest): SubmissionHeaders {
  return { contentDisposition: request.headers['content-disposition'], payloads: rawHeaders(request, 'payload') };
}

function rawHeaders({ raw }: FastifyRequest, name: string): string[] {
  return raw.rawHeaders.filter((_, index) => index % 2 === 1 && raw.rawHeaders[index - 1]?.toLowerCase() === name);
}

/** The bytes of the zip: the whole body, whatever its type, or the one file of a multipart form. */
export function zipBody(request: FastifyRequest): {
  body: Readable | AsyncIterable<Uint8Array>;
  declaredBytes: number | null;
} {
  const { 'content-encoding': encoding = 'identity' } = request.headers;
  if (encoding.toLowerCase() !== 'identity') {
    const message = `The request body has the Content-Encoding ${JSON.stringify(encoding.slice(0, 64))}. Send the zip itself, without Content-Encoding: it is compressed already.`;
    throw new BursarError('unsupported_encoding', message);
  }
  const [contentType = ''] = rawHeaders(request, 'content-type');
  if (/^multipart\/form-data\s*(;|$)/i.test(contentType)) {
    // The size of the form includes more than the zip.
    return { body: multipartFile(request.raw, contentType), declaredBytes: null };
  }
  const { 'content-length': length } = request.headers;
  return { body: request.raw, declaredBytes: length === undefined ? null : Number(length) };
}

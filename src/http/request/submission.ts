import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { SubmissionHeaders } from '../../contract/submission-headers.ts';
import { keyHeader } from './idempotency-key.ts';
import { multipartFile } from './multipart.ts';

export const submissionSchema = {
  headers: Type.Object({
    'content-disposition': Type.String({ description: 'attachment; filename=<file.zip>' }),
    payload: Type.String({
      description:
        'A JSON object: `command` (batch systems) or `tool` (tool systems), `node_number`, `core_number`, ' +
        '`runtime` in hours, `title`, `tags` (up to 16 words), and the parameters of the tool, which `/hpc/` lists. Numbers as text or as numbers.',
    }),
    ...keyHeader,
  }),
  body: {
    content: {
      'application/zip': { schema: Type.String({ format: 'binary' }) },
      'multipart/form-data': { schema: Type.Object({ file: Type.String({ format: 'binary' }) }) },
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
): Readable | AsyncIterable<Uint8Array> {
  return /^multipart\/form-data\s*(;|$)/i.test(contentType ?? '')
    ? multipartFile(request.raw, contentType ?? '')
    : request.raw;
}

import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { PayloadSchema, type SubmissionHeaders } from '../../contract/submission.ts';
import { BursarError } from '../../domain/errors.ts';

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

/**
 * Yields the bytes of the only file of a multipart form as they arrive. Throws `invalid_body` if the form is malformed or
 * incomplete, or has no file, more than one file, or a field (parameters go in the Payload header).
 */
export async function* multipartFile(body: Readable, contentType: string): AsyncGenerator<Buffer> {
  const parser = createParser(contentType);
  let file: Readable | undefined;
  let problem: string | undefined;
  const firstPart = Promise.withResolvers<void>();

  parser.on('file', (_field, stream) => {
    // A form that ends inside its file fails here too. The pipeline below reports that error.
    stream.on('error', () => undefined);
    if (file === undefined) file = stream;
    else {
      problem ??= 'The multipart form has more than one file. Send one zip file.';
      stream.resume();
    }
    firstPart.resolve();
  });
  parser.on('field', (field) => {
    problem ??= `The multipart form has a field "${field.slice(0, 64)}". Parameters go in the Payload header.`;
  });
  const parsing = pipeline(body, parser);
  parsing.catch((error) => file?.destroy(error));
  parsing.then(firstPart.resolve, firstPart.resolve);

  try {
    await firstPart.promise;
    if (file !== undefined) for await (const chunk of file.iterator({ destroyOnReturn: false })) yield chunk;
    await parsing;
  } catch (cause) {
    throw new BursarError('invalid_body', 'The multipart form is malformed or incomplete. Send it again.', {
      cause,
    });
  } finally {
    // A consumer that stops early must not stop the request: its rest is still read, so that the client gets the response.
    file?.resume();
  }
  if (file === undefined) problem ??= 'The multipart form has no file. Send the zip as its only file.';
  if (problem !== undefined) throw new BursarError('invalid_body', problem);
}

function createParser(contentType: string) {
  try {
    return new Busboy({ headers: { 'content-type': contentType }, limits: { fieldSize: 1024, fields: 20, files: 20 } });
  } catch (cause) {
    throw new BursarError(
      'invalid_body',
      'The Content-Type of the multipart form has no boundary. Add it, or send the zip itself as the body.',
      { cause },
    );
  }
}

import type { Readable } from 'node:stream';
import { parse as parseDisposition } from 'content-disposition';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { parsePayload } from '../../domain/jobs/payload.ts';
import type { HpcSystem } from '../../domain/systems/system.ts';
import { keyHeader } from './idempotency-key.ts';
import { multipartFile } from './multipart.ts';

export const submissionSchema = {
  headers: Type.Object({
    'content-disposition': Type.String({ description: 'attachment; filename=<file.zip>' }),
    payload: Type.String({
      description:
        'A JSON object: `command` (batch systems) or `tool` (tool systems), `node_number`, `core_number`, ' +
        '`runtime` in hours, `title`. Numbers as text or as numbers.',
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

/** What the headers of a submission ask for. */
export function readSubmission(request: FastifyRequest, system: HpcSystem): JobRequest {
  checkContentDisposition(request.headers['content-disposition']);
  return readPayload(request, system);
}

export function readPayload(request: FastifyRequest, system: HpcSystem): JobRequest {
  return parsePayload(payloadText(request), system);
}

/** The Payload as it is compared with that of an earlier request: what it says, not how it is spelt. */
export function payloadContent(request: FastifyRequest): unknown {
  const text = payloadText(request);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The text of the Payload header. Node hands headers over as latin1; a title in UTF-8 is decoded here. */
function payloadText(request: FastifyRequest): string {
  const values = headerValues(request.raw.rawHeaders, 'payload');
  const [value] = values;
  if (value === undefined) {
    throw new BursarError('invalid_payload', 'The header Payload is missing. Send it with one JSON object.');
  }
  if (values.length > 1) {
    throw new BursarError('invalid_payload', `The header Payload was sent ${values.length} times. Send it once.`);
  }
  try {
    return utf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Of one header, however often it was sent. */
function headerValues(namesAndValues: readonly string[], name: string): string[] {
  return namesAndValues.filter((_, index) => index % 2 === 1 && namesAndValues[index - 1]?.toLowerCase() === name);
}

/** Throws unless the header announces a zip file by name, as the interface asks. */
export function checkContentDisposition(header: string | undefined): void {
  const example = 'Send "Content-Disposition: attachment; filename=job.zip".';
  const refuse = (problem: string, cause?: unknown) =>
    new BursarError('invalid_content_disposition', `${problem} ${example}`, { cause });
  if (header === undefined) throw refuse('The header Content-Disposition is missing.');
  const { type, parameters } = readDisposition(header, refuse);
  if (type.toLowerCase() !== 'attachment') throw refuse('The disposition must be "attachment".');
  const name = parameters.filename;
  if (name === undefined || name === '') throw refuse('It names no file.');
  if (/[/\\\0]/.test(name)) throw refuse('The file name must not contain path parts.');
  if (!/.\.zip$/i.test(name)) throw refuse('The file name must end in .zip.');
}

function readDisposition(header: string, refuse: (problem: string, cause?: unknown) => BursarError) {
  try {
    return parseDisposition(header);
  } catch (cause) {
    throw refuse('It cannot be parsed; a name with spaces or special characters needs quotes.', cause);
  }
}

export type ZipBody = Readable | AsyncIterable<Uint8Array>;

/**
 * The bytes of the zip: the whole body whatever its type, or the one file of a multipart form.
 * `contentType` is what the caller said, before it was hidden from the framework.
 */
export function zipBody(request: FastifyRequest, contentType: string | undefined): ZipBody {
  return /^multipart\/form-data\s*(;|$)/i.test(contentType ?? '')
    ? multipartFile(request.raw, contentType ?? '')
    : request.raw;
}

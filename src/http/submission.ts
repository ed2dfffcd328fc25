import { Readable } from 'node:stream';
import { parse as parseDisposition } from 'content-disposition';
import type { FastifyRequest } from 'fastify';
import { BursarError } from '../domain/errors.ts';
import { multipartFile } from './multipart.ts';

/** The text of the Payload header. Node hands headers over as latin1; a title in UTF-8 is decoded here. */
export function payloadText(request: FastifyRequest): string {
  const values = request.raw.headersDistinct.payload ?? [];
  const [value] = values;
  if (value === undefined) {
    throw new BursarError('invalid_payload', 'The header Payload is missing. Send it with one JSON object.');
  }
  if (values.length > 1) {
    throw new BursarError('invalid_payload', `The header Payload was sent ${values.length} times. Send it once.`);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
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

/**
 * The bytes of the zip: the whole body whatever its type, or the one file of a multipart form.
 * `contentType` is what the caller said, before it was hidden from the framework.
 */
export function zipBody(request: FastifyRequest, contentType: string | undefined): Readable {
  return /^multipart\/form-data\s*(;|$)/i.test(contentType ?? '')
    ? Readable.from(multipartFile(request.raw, contentType ?? ''))
    : request.raw;
}

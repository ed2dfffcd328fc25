import { parse as parseDisposition } from 'content-disposition';
import { BursarError } from '../domain/errors.ts';

/** The headers of a submission or quote, as they were received. Nothing is checked yet. */
export interface SubmissionHeaders {
  contentDisposition: string | undefined;
  /** Every Payload header of the request, decoded by Node as latin1. */
  payloads: readonly string[];
}

/** The text of the Payload header. Throws unless it was sent exactly once. */
export function requirePayloadText({ payloads }: SubmissionHeaders): string {
  const [value] = payloads;
  if (value === undefined) {
    throw new BursarError('invalid_payload', 'The header Payload is missing. Send it with one JSON object.');
  }
  if (payloads.length > 1) {
    throw new BursarError('invalid_payload', `The header Payload was sent ${payloads.length} times. Send it once.`);
  }
  // Most clients send UTF-8. Any other text stays latin1.
  try {
    return utf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The parsed Payload, for comparing a request with an earlier one: formatting does not matter. */
export function toComparablePayload(headers: SubmissionHeaders): unknown {
  const text = requirePayloadText(headers);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Throws unless the header names a zip file, as the API contract requires. */
export function requireZipAttachment({ contentDisposition }: SubmissionHeaders): void {
  if (contentDisposition === undefined) throw invalidDisposition('The header Content-Disposition is missing.');
  const { type, parameters } = parseHeader(contentDisposition);
  if (type.toLowerCase() !== 'attachment') throw invalidDisposition('The disposition must be "attachment".');
  const name = parameters.filename;
  if (name === undefined || name === '') throw invalidDisposition('The header Content-Disposition names no file.');
  if (/[/\\\0]/.test(name)) throw invalidDisposition('The file name must not contain path parts.');
  if (!/.\.zip$/i.test(name)) throw invalidDisposition('The file name must end in .zip.');
}

function invalidDisposition(problem: string, cause?: unknown): BursarError {
  const message = `${problem} Send "Content-Disposition: attachment; filename=job.zip".`;
  return new BursarError('invalid_content_disposition', message, { cause });
}

function parseHeader(header: string) {
  try {
    return parseDisposition(header);
  } catch (cause) {
    throw invalidDisposition(
      'The header cannot be parsed; a name with spaces or special characters needs quotes.',
      cause,
    );
  }
}

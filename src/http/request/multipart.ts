import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { BursarError } from '../../domain/errors.ts';

/**
 * The bytes of the one file of a multipart form, as they arrive. Ends with `invalid_body` when the form is broken
 * or cut off, and when it has no file, a second one, or a field: parameters go in the Payload header.
 */
export async function* multipartFile(body: Readable, contentType: string): AsyncGenerator<Buffer> {
  const form = openForm(contentType);
  let file: Readable | undefined;
  let problem: string | undefined;
  const firstPart = Promise.withResolvers<void>();

  form.on('file', (_field, stream) => {
    // A form that ends within its file fails here; the pipeline below reports it.
    stream.on('error', () => undefined);
    if (file === undefined) file = stream;
    else {
      problem ??= 'The multipart form has more than one file. Send one zip.';
      stream.resume();
    }
    firstPart.resolve();
  });
  form.on('field', (field) => {
    problem ??= `The multipart form has a field "${field.slice(0, 64)}". Parameters go in the Payload header.`;
  });
  const whole = pipeline(body, form);
  whole.catch((error) => file?.destroy(error));
  whole.then(firstPart.resolve, firstPart.resolve);

  try {
    await firstPart.promise;
    if (file !== undefined) for await (const chunk of file.iterator({ destroyOnReturn: false })) yield chunk;
    await whole;
  } catch (cause) {
    throw new BursarError('invalid_body', 'The multipart form is broken, or was cut off. Send it again, whole.', {
      cause,
    });
  } finally {
    // A consumer that stops early must not stop the request: its rest is still read, so that the client gets the response.
    file?.resume();
  }
  if (file === undefined) problem ??= 'The multipart form has no file. Send the zip as one.';
  if (problem !== undefined) throw new BursarError('invalid_body', problem);
}

function openForm(contentType: string) {
  try {
    return new Busboy({ headers: { 'content-type': contentType }, limits: { fieldSize: 1024, fields: 20, files: 20 } });
  } catch (cause) {
    throw new BursarError(
      'invalid_body',
      'The multipart form names no boundary in its Content-Type. Send one, or the zip itself as the body.',
      { cause },
    );
  }
}

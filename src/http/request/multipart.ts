import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Busboy } from '@fastify/busboy';
import { BursarError } from '../../domain/errors.ts';

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

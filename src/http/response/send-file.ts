import { basename } from 'node:path/posix';
import { create as contentDisposition } from 'content-disposition';
import type { FastifyReply } from 'fastify';
import mime from 'mime';
import { BursarError } from '../../domain/errors.ts';
import type { OpenFile } from '../../services/jobs/read-files.ts';
import { httpDate, isUnchanged, rangeStillValid } from '../request/preconditions.ts';
import { readRange } from '../request/range.ts';
import { sendEmpty } from './send-nothing.ts';

/**
 * Headers for what a job made: it must never run in a browser as if it came from this service. It is saved, not shown;
 * its type is not guessed; and where it is shown all the same, it may load, run and send nothing.
 */
export function setDownloadHeaders(reply: FastifyReply, path: string, type?: string): FastifyReply {
  return reply
    .header('content-type', type ?? mime.getType(path) ?? 'application/octet-stream')
    .header('content-disposition', contentDisposition(basename(path)))
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', "sandbox; default-src 'none'")
    .header('cross-origin-resource-policy', 'same-origin')
    .header('cache-control', 'private, no-cache');
}

/** Sends an open file, or the part of it that is asked for, or that nothing has changed. The file is closed after it. */
export async function sendFile(reply: FastifyReply, path: string, file: OpenFile): Promise<FastifyReply> {
  const { method, headers } = reply.request;
  const { size, modifiedAt, version, isVersionReliable } = file;
  const validators = { etag: `${isVersionReliable ? '' : 'W/'}"${version}"`, modifiedAt };
  reply.header('etag', validators.etag).header('last-modified', httpDate(modifiedAt)).header('accept-ranges', 'bytes');
  try {
    if (isUnchanged(headers, validators)) return sendEmpty(reply.code(304));
    // A Range means something to GET only.
    const asked =
      method === 'GET' && rangeStillValid(headers['if-range']?.toString(), validators) ? headers.range : undefined;
    const range = readRange(asked, size);
    if (range.kind === 'unsatisfiable') {
      reply.header('content-range', `bytes */${size}`);
      throw new BursarError('range_not_satisfiable', `The file has ${size} bytes; the range is beyond them.`);
    }
    const { start, length } = range.kind === 'part' ? range : { start: 0, length: size };
    setDownloadHeaders(reply, path).header('content-length', length);
    if (range.kind === 'part') {
      reply.code(206).header('content-range', `bytes ${start}-${start + length - 1}/${size}`);
    }
    if (method === 'HEAD') return sendEmpty(reply);
    return reply.send(await file.read(start, length));
  } finally {
    await file.close();
  }
}

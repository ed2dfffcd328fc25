import { basename } from 'node:path/posix';
import { create as contentDisposition } from 'content-disposition';
import type { FastifyReply } from 'fastify';
import mime from 'mime';
import { BursarError } from '../../domain/errors.ts';
import type { OpenFile } from '../../services/jobs/read-files.ts';
import { httpDate, isRangeValid, isUnchanged, parseRange } from '../request/preconditions.ts';
import { sendEmpty } from './send.ts';

/**
 * Keeps a browser from running a file of a job as a page of this service: the file is downloaded, its type is not
 * guessed, and if it is displayed after all, the sandbox keeps it from loading, running or sending anything.
 */
export function setDownloadHeaders(reply: FastifyReply, path: string, type?: string): FastifyReply {
  return reply
    .header('content-type', type ?? mime.getType(path) ?? 'application/octet-stream')
    .header('content-disposition', contentDisposition(basename(path)))
    .header('content-security-policy', "sandbox; default-src 'none'")
    .header('cross-origin-resource-policy', 'same-origin')
    .header('cache-control', 'private, no-cache');
}

/** Sends the file, the requested range of it, or 304. The file is closed in every case. */
export async function sendFile(reply: FastifyReply, path: string, file: OpenFile): Promise<FastifyReply> {
  const { method, headers } = reply.request;
  const { size, modifiedAt, version, isVersionReliable } = file;
  const validators = { etag: `${isVersionReliable ? '' : 'W/'}"${version}"`, modifiedAt };
  reply.header('etag', validators.etag).header('last-modified', httpDate(modifiedAt)).header('accept-ranges', 'bytes');
  try {
    if (isUnchanged(headers, validators)) return sendEmpty(reply.code(304));
    // RFC 9110 defines Range for GET only.
    const rangeHeader =
      method === 'GET' && isRangeValid(headers['if-range']?.toString(), validators) ? headers.range : undefined;
    const range = parseRange(rangeHeader, size);
    if (range.kind === 'unsatisfiable') {
      reply.header('content-range', `bytes */${size}`);
      throw new BursarError(
        'range_not_satisfiable',
        `The range is beyond the end of the file, which has ${size} bytes.`,
      );
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

import type { SendOptions, SendResult } from '@fastify/send';
import type { FastifyReply } from 'fastify';
import { BursarError } from '../../domain/errors.ts';

const suffixes = { br: '.br', gzip: '.gz' };

/**
 * Sends a file of the server itself: of a folder of the build, or of a package. If there is a compressed copy beside the file,
 * a client that accepts it gets that. The packages for this are loaded with the first file.
 */
export async function sendStaticFile(
  reply: FastifyReply,
  root: string,
  path: string,
  options: SendOptions = {},
): Promise<FastifyReply> {
  const { default: send } = await import('@fastify/send');
  const { default: negotiate } = await import('@fastify/accept-negotiator');
  const { raw, headers } = reply.request;
  const read = (suffix: string) => send(raw, encodeURI(`${path}${suffix}`), { ...options, root, index: false });
  const encoding = negotiate(headers['accept-encoding']?.toString() ?? '', ['br', 'gzip']);
  const copy = encoding === null ? undefined : await read(suffixes[encoding]);
  const file = copy === undefined || isMissing(copy) ? await read('') : copy;
  if (isMissing(file)) throw new BursarError('not_found', 'There is nothing at this path. See /docs/.');
  if (file.type === 'error') throw file.metadata.error;
  reply.code(file.statusCode).headers(file.headers).header('vary', 'Accept-Encoding');
  if (file === copy) {
    const type = send.mime.getType(path) ?? 'application/octet-stream';
    reply.header('content-encoding', encoding);
    reply.header('content-type', send.isUtf8MimeType(type) ? `${type}; charset=utf-8` : type);
  }
  return reply.send(file.stream);
}

/** True for a folder and for a path outside the root too: neither is served. */
const isMissing = ({ type, statusCode }: SendResult) =>
  type === 'directory' || (type === 'error' && [400, 403, 404].includes(statusCode));

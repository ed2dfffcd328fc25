import { joinBytes, readBytes, readResumable, skipBytes } from './byte-stream.ts';
import type { Http } from './http.ts';

export interface DownloadOptions {
  /** The part that is there already, with the ETag of the file that it is a part of. */
  resume?: { offset: number; etag: string } | undefined;
  signal?: AbortSignal | undefined;
}

/** The content of a file, or of an archive. It can be read once. */
export interface Download extends AsyncIterable<Uint8Array> {
  /** Offset of the first byte. It is 0 if the file is another one than that of `resume`. */
  start: number;
  /** Size of the whole file; undefined for an archive. */
  size: number | undefined;
  /** Identifies the version of the file. Begins with `W/` while the file may still change unnoticed. */
  etag: string | undefined;
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  text(): Promise<string>;
}

/** The file on the server is no longer the one whose first part was received. */
export class FileChangedError extends Error {
  override name = 'FileChangedError';
  readonly code = 'file_changed';
}

/** A download that has begun waits longer for the server than its first request: a restart takes some seconds. */
const reopenFactor = 3;

/** Opens a file. If the connection is cut while it is read, the rest is requested, of the same version only. */
export async function openDownload(http: Http, path: string, { resume, signal }: DownloadOptions): Promise<Download> {
  const get = (offset: number, etag: string | undefined, retries = http.retries) => {
    const range = offset > 0 && etag ? { range: `bytes=${offset}-`, 'if-range': etag } : {};
    const headers = { accept: '*/*', ...range };
    return http.send(
      { method: 'GET', path, headers, signal, retries, isRepeatable: true },
      async (response) => response,
    );
  };
  const first = await get(resume?.offset ?? 0, resume?.etag);
  const start = first.status === 206 ? (resume?.offset ?? 0) : 0;
  const etag = first.headers.get('etag') ?? undefined;

  const reopen = async (offset: number) => {
    const retries = http.retries * reopenFactor;
    if (offset === 0 && start === 0) return readBytes(await get(0, undefined, retries), signal);
    const response = await get(start + offset, etag, retries);
    if (!etag || versionOf(response) !== versionOf(first)) {
      response.body?.cancel().catch(() => undefined);
      throw new FileChangedError(`${path} has changed while it was read. Download it again.`);
    }
    const bytes = readBytes(response, signal);
    // The server sends all of a file whose ETag is weak.
    return response.status === 206 ? bytes : skipBytes(bytes, start + offset);
  };
  return toDownload(readResumable(readBytes(first, signal), reopen, http.retries), start, sizeOf(first), etag);
}

export function toDownload(
  chunks: AsyncGenerator<Uint8Array>,
  start = 0,
  size: number | undefined = undefined,
  etag: string | undefined = undefined,
): Download {
  const bytes = () => joinBytes(chunks);
  return {
    start,
    size,
    etag,
    bytes,
    text: async () => new TextDecoder().decode(await bytes()),
    [Symbol.asyncIterator]: () => chunks,
  };
}

/** A weak ETag becomes strong when the file has not changed for a moment. The version is the same. */
function versionOf({ headers }: Response): string | undefined {
  return headers.get('etag')?.replace(/^W\//, '');
}

function sizeOf({ headers, status }: Response): number | undefined {
  const size = status === 206 ? headers.get('content-range')?.split('/')[1] : headers.get('content-length');
  return size ? Number(size) : undefined;
}

import { ConnectionError } from './errors.ts';

/** Reads the body of a response. A body that is cut off throws a `ConnectionError`. Closes the response if the reader stops. */
export async function* readBytes(response: Response, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  // Safari cannot iterate over a stream.
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw signal?.aborted ? signal.reason : new ConnectionError(response.url, error);
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Reads a body to its end, and goes on after an interruption: `reopen` returns the bytes from an offset on. */
export async function* readResumable(
  first: AsyncIterable<Uint8Array>,
  reopen: (offset: number) => Promise<AsyncIterable<Uint8Array>>,
  maxResumes: number,
): AsyncGenerator<Uint8Array> {
  let offset = 0;
  let chunks = first;
  for (let resumes = 0; ; resumes++) {
    try {
      for await (const chunk of chunks) {
        offset += chunk.length;
        // An interruption after progress is a new one.
        resumes = 0;
        yield chunk;
      }
      return;
    } catch (error) {
      if (!(error instanceof ConnectionError) || resumes >= maxResumes) throw error;
    }
    chunks = await reopen(offset);
  }
}

export async function* skipBytes(chunks: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const chunk of chunks) {
    if (chunk.length > left) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.length);
  }
}

/** Decodes UTF-8 across the borders of chunks. */
export async function* decodeText(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    if (text !== '') yield text;
  }
  const rest = decoder.decode();
  if (rest !== '') yield rest;
}

export async function joinBytes(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    parts.push(chunk);
    length += chunk.length;
  }
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

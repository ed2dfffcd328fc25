import type { FileHandle } from 'node:fs/promises';
import { pipeline, Readable, Transform } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import { extendDeadline } from '../../domain/reading-deadline.ts';

const chunkBytes = 256 * 1024;

const fileShrank = () =>
  new BursarError('unavailable', 'The file became shorter while it was read. Request it again.', { transient: true });

/**
 * Streams exactly these bytes of an open file, and closes the file with the stream. The stream fails if the file has become
 * shorter: the Content-Length has been sent by then, and the client would mistake the next response for the rest.
 */
export async function streamRange(handle: FileHandle, start: number, length: number): Promise<Readable> {
  return pipeline(await streamUpTo(handle, start, length), exactLength(length), () => undefined);
}

/** Streams at most these bytes of an open file, and closes the file with the stream. */
export async function streamUpTo(handle: FileHandle, start: number, length: number): Promise<Readable> {
  if (length > 0) return handle.createReadStream({ start, end: start + length - 1, highWaterMark: chunkBytes });
  await handle.close();
  return Readable.from([]);
}

/** Passes on the first `length` bytes and drops the rest. Fails at the end of the input if there were fewer. */
export function exactLength(length: number): Transform {
  let remaining = length;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const part = chunk.subarray(0, remaining);
      remaining -= part.length;
      done(null, part);
    },
    flush: (done) => done(remaining > 0 ? fileShrank() : null),
  });
}

/** Passes all bytes on. Fails if no chunk has passed for `idleMs`, because its source or its reader has stalled. */
export function idleTimeout(idleMs: number, message: string): Transform {
  const onTimeout = () => stream.destroy(new BursarError('unavailable', message, { transient: true }));
  const timer = setTimeout(onTimeout, idleMs);
  const stream = new Transform({
    transform(chunk, _encoding, done) {
      timer.refresh();
      done(null, chunk);
    },
  });
  return stream.once('close', () => clearTimeout(timer));
}

export interface MinimumRate {
  bytesPerSecond: number;
  /** See `extendDeadline`. */
  maxPauseMs: number;
  /** Whether the rate matters at the moment. */
  isRequired(): boolean;
}

/** Passes all bytes on. Fails if its reader is slower. After the end of the source, its reader has time. */
export function minimumRate({ bytesPerSecond, maxPauseMs, isRequired }: MinimumRate, message: string): Transform {
  let deadline = performance.now() + maxPauseMs;
  const timer = setInterval(() => {
    // Bytes that wait show that the reader is slow, and not the source.
    if (performance.now() > deadline && stream.readableLength > 0 && isRequired()) {
      stream.destroy(new BursarError('unavailable', message, { transient: true }));
    }
  }, maxPauseMs / 10);
  const stop = () => clearInterval(timer);
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      deadline = extendDeadline({
        deadline,
        now: performance.now(),
        bytes: chunk.length,
        bytesPerSecond,
        maxPauseMs,
      });
      done(null, chunk);
    },
    flush(done) {
      stop();
      done();
    },
  });
  return stream.once('close', stop);
}

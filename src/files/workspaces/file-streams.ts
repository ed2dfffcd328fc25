import type { FileHandle } from 'node:fs/promises';
import { Readable, Transform } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';

const chunkBytes = 256 * 1024;

const shorter = () =>
  new BursarError('unavailable', 'The file has become shorter while it was read. Ask again.', { transient: true });

/**
 * The bytes of an open file, which is closed with the stream. With `exact` a file that has become shorter fails it:
 * the length has been announced by then, and what comes after it would be taken for the rest.
 */
export function streamRange(handle: FileHandle, start: number, length: number, exact: boolean): Readable {
  let position = start;
  const end = start + length;
  return new Readable({
    highWaterMark: chunkBytes,
    async read() {
      try {
        const room = Math.min(chunkBytes, end - position);
        if (room === 0) return void this.push(null);
        const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(room), 0, room, position);
        position += bytesRead;
        if (bytesRead > 0) this.push(buffer.subarray(0, bytesRead));
        else if (exact) this.destroy(shorter());
        else this.push(null);
      } catch (error) {
        this.destroy(error as Error);
      }
    },
    destroy(error, done) {
      handle.close().then(
        () => done(error),
        (failure) => done(error ?? failure),
      );
    },
  });
}

/** Passes exactly so many bytes on, and fails at the end when there were fewer. */
export function exactLength(length: number): Transform {
  let left = length;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const part = chunk.subarray(0, left);
      left -= part.length;
      done(null, part);
    },
    flush: (done) => done(left > 0 ? shorter() : null),
  });
}

/** Passes everything on, and fails when nothing has been taken, or has come, for so long. */
export function idleTimeout(idleMs: number): Transform {
  const cut = () =>
    stream.destroy(
      new BursarError('unavailable', 'Nothing was taken for too long. Resume with Range.', { transient: true }),
    );
  const timer = setTimeout(cut, idleMs);
  const stream = new Transform({
    transform(chunk, _encoding, done) {
      timer.refresh();
      done(null, chunk);
    },
  });
  return stream.once('close', () => clearTimeout(timer));
}

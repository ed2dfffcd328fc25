import { randomBytes } from 'node:crypto';
import { makeZip } from '../../files/zip/hostile-zips.ts';

/** Creates a valid zip. */
export function createValidZip(): Promise<Buffer> {
  return makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': Buffer.alloc(1000, 7) });
}

/** Creates a valid zip of which even one half is too large to be buffered in memory. */
export function createLargeZip(): Promise<Buffer> {
  return makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': randomBytes(170_000) });
}

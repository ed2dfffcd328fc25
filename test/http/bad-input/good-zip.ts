import { randomBytes } from 'node:crypto';
import { makeZip } from '../../files/zip/hostile-zips.ts';

/** A zip in which nothing is wrong. */
export function goodZip(): Promise<Buffer> {
  return makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': Buffer.alloc(1000, 7) });
}

/** Another one, of which half is more than is held in memory. */
export function largeZip(): Promise<Buffer> {
  return makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': randomBytes(170_000) });
}
